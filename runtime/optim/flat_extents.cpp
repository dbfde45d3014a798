// Continues FlatLayout (runtime/optim/flat_layout.h): as logical tensors, extents, and what counts
// in norms. Only which part of a logical tensor is visited depends on the layout; padding is never
// visited.
#include <algorithm>

#include "runtime/optim/flat_layout.h"
#include "runtime/optim/packed_boxes.h"

namespace trireme {

using namespace optim;

namespace {

/// Calls f(packed box) for the elements of `part` inside `range`, in order.
template <class F>
void for_each_inside(const ParameterPart& part, Index offset, FlatRange range, F&& f) {
  for (const Packed& packed : packed_boxes(part, offset)) {
    const Index begin = std::max(range.begin, packed.offset) - packed.offset;
    const Index end = std::min(range.end(), packed.offset + packed.box.count()) - packed.offset;
    if (begin >= end) continue;
    Index at = packed.offset + begin;
    for (const Box& box : boxes_of_flat_range(packed.box, begin, end)) {
      f(Packed{box, at});
      at += box.count();
    }
  }
}

/// `shift`: what is added to flat offsets.
void append_extents(const Parameter& declared, const FlatParameter& parameter, FlatRange range,
                    DType dtype, Index shift, std::vector<FlatExtent>& out) {
  for (const ParameterPart& part : declared.parts) {
    FlatExtent flat{{part.name, dtype, part.global, {}}, {}, parameter.owned};
    for_each_inside(part, parameter.range.begin, range, [&](const Packed& packed) {
      flat.extent.boxes.push_back(packed.box);
      flat.offsets.push_back(packed.offset + shift);
    });
    if (!flat.extent.boxes.empty()) out.push_back(std::move(flat));
  }
}

}  // namespace

Index FlatLayout::shift_of(FlatBuffer buffer, const Bucket& bucket) const {
  if (bucket.frozen) return 0;
  switch (buffer) {
    case FlatBuffer::computed:
      return 0;
    case FlatBuffer::masters:
      return master_begin(bucket) - updated(bucket).begin;
    case FlatBuffer::state:
      return bucket.state_begin - updated(bucket).begin;
  }
  return 0;
}

std::vector<FlatExtent> FlatLayout::extents(
    FlatBuffer buffer, FunctionRef<FlatRange(const FlatParameter&)> range_of) const {
  std::vector<FlatExtent> result;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Bucket& bucket = bucket_with(parameters_[i]);
    if (bucket.frozen && buffer == FlatBuffer::state) continue;
    const bool in_copy = bucket.frozen && buffer == FlatBuffer::masters;
    append_extents(declared_[i], parameters_[i], range_of(parameters_[i]),
                   in_copy ? options_.compute : DType::f32, shift_of(buffer, bucket), result);
  }
  return result;
}

std::vector<FlatExtent> FlatLayout::parameter_extents() const {
  return extents(FlatBuffer::computed, [](const FlatParameter& p) { return p.range; });
}

std::vector<FlatExtent> FlatLayout::master_extents() const {
  return extents(FlatBuffer::masters, [&](const FlatParameter& p) {
    const Bucket& bucket = bucket_with(p);
    return masters_are_slices() || (bucket.frozen && has_copy()) ? updated(bucket) : p.range;
  });
}

std::vector<FlatExtent> FlatLayout::state_extents() const {
  return extents(FlatBuffer::state,
                 [&](const FlatParameter& p) { return updated(bucket_with(p)); });
}

std::vector<FlatExtent> FlatLayout::slice_extents(FlatBuffer buffer) const {
  return extents(buffer, [&](const FlatParameter& p) { return bucket_with(p).slice; });
}

std::vector<FlatExtent> FlatLayout::written_extents(FlatBuffer buffer) const {
  return extents(buffer, [&](const FlatParameter& p) { return written(p); });
}

/// The slice of this data rank, cut into equal parts for its copies where that makes pieces worth
/// writing.
FlatRange FlatLayout::written(const FlatParameter& parameter) const {
  constexpr Index worth_cutting = (Index{64} << 10) / 4;  // elements
  const FlatRange slice = bucket_with(parameter).slice;
  const Index begin = std::max(slice.begin, parameter.range.begin);
  const Index count = std::min(slice.end(), parameter.range.end()) - begin;
  if (count <= 0) return {};
  if (count < worth_cutting) return parameter.owned ? FlatRange{begin, count} : FlatRange{};
  const auto cut = [&](Index copy) { return count * copy / parameter.copies; };
  return {begin + cut(parameter.copy), cut(parameter.copy + 1) - cut(parameter.copy)};
}

std::vector<FlatRange> FlatLayout::norm_ranges() const {
  std::vector<FlatRange> result;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Bucket& bucket = bucket_with(parameters_[i]);
    if (!parameters_[i].owned || bucket.frozen) continue;
    for (const ParameterPart& part : declared_[i].parts)
      for_each_inside(part, parameters_[i].range.begin, bucket.slice, [&](const Packed& packed) {
        if (!result.empty() && result.back().end() == packed.offset)
          result.back().count += packed.box.count();
        else
          result.push_back({packed.offset, packed.box.count()});
      });
  }
  return result;
}

}  // namespace trireme
