// Implements dump_parameters and dump_gradients (train/tensor_dump.h).
#include <algorithm>
#include <map>

#include "runtime/train/tensor_dump.h"

namespace trireme::train {
namespace {

/// The place of each logical tensor in the model, which all ranks trace alike.
std::map<std::string, Index> places_of(const FlatLayout& flat) {
  constexpr Index most_parts = 1024;  // of a parameter: query, key and value are three
  std::map<std::string, Index> places;
  for (int i = 0; i < static_cast<int>(flat.parameters().size()); ++i) {
    Index place = flat.parameters()[static_cast<std::size_t>(i)].id * most_parts;
    for (const ParameterPart& part : flat.declared(i).parts) places[part.name] = place++;
  }
  return places;
}

/// `place_of`(dtype, offset in an extent): in memory.
template <class F>
std::vector<TensorPart> parts(const FlatLayout& layout, const std::vector<FlatExtent>& extents,
                              F&& place_of) {
  const std::map<std::string, Index> places = places_of(layout);
  std::vector<TensorPart> all;
  for (const FlatExtent& flat : extents) {
    if (!flat.owned) continue;
    TensorPart& part = all.emplace_back(TensorPart{flat.extent, {}, places.at(flat.extent.name)});
    for (const Index offset : flat.offsets)
      part.boxes.push_back(place_of(flat.extent.dtype, offset));
  }
  return all;
}

}  // namespace

/// Each data rank its slices, which hold what it has updated itself whatever the options.
void dump_parameters(const FlatParameters& flat, const Context& context) {
  const std::string& prefix = context.options().dump_tensors;
  if (prefix.empty()) return;
  const std::vector<TensorPart> mine = parts(
      flat, flat.slice_extents(FlatBuffer::masters),
      [&](DType type, Index offset) { return flat.kept_data(type) + offset * size_bytes(type); });
  dump_tensors(prefix + ".parameters", mine, context);
}

/// Reduced gradients are complete only in what this rank updates, which extents of the state
/// describe.
void dump_gradients(const FlatParameters& flat, const Context& context) {
  const std::string& prefix = context.options().dump_tensors;
  if (prefix.empty()) return;
  const auto gradient_at = [&](DType, Index offset) {
    for (const Bucket& bucket : flat.buckets()) {
      const FlatRange updated = flat.updated(bucket);
      if (bucket.state_begin <= offset && offset < bucket.state_begin + updated.count)
        return flat.gradient_data() + updated.begin + offset - bucket.state_begin;
    }
    throw Error(str("no bucket has optimizer state at element ", offset));
  };
  std::vector<TensorPart> mine;
  if (context.mesh().coordinate(Axis::data) == 0 || flat.options().update == Update::sharded)
    mine = parts(flat, flat.state_extents(), gradient_at);
  dump_tensors(prefix + ".gradients", mine, context);
}

}  // namespace trireme::train
