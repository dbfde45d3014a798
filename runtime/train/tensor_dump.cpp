#include "runtime/train/tensor_dump.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include "trireme/comm/agree.h"

#include "runtime/core/output/output_file.h"
#include "runtime/store/file.h"
#include "runtime/store/read/widen.h"
#include "runtime/store/write/unfinished.h"

namespace trireme::train {
namespace {

struct FilePlace {
  Shape global;
  Index place = 0;  // in the model
  Index offset_bytes = 0;
};

/// By their place in the model.
std::vector<std::pair<const std::string, FilePlace>*> in_order(
    std::map<std::string, FilePlace>& all) {
  std::vector<std::pair<const std::string, FilePlace>*> ordered;
  for (auto& each : all) ordered.push_back(&each);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto* a, const auto* b) { return a->second.place < b->second.place; });
  return ordered;
}

/// Every tensor that any rank names, with its place in the file.
std::map<std::string, FilePlace> places(const std::vector<TensorPart>& mine, const Host& host) {
  std::ostringstream lines;
  for (const TensorPart& part : mine) {
    lines << part.extent.name << ' ' << part.place << ' ' << part.extent.global.dims();
    for (const Index extent : part.extent.global) lines << ' ' << extent;
    lines << '\n';
  }
  std::map<std::string, FilePlace> all;
  for (const std::string& text : gather_strings(host, lines.str())) {
    std::istringstream in(text);
    std::string name;
    Index place = 0;
    for (int dims = 0; in >> name >> place >> dims;) {
      Shape global;
      for (int d = 0; d < dims; ++d) {
        Index extent = 0;
        in >> extent;
        global.push_back(extent);
      }
      all[name] = {global, place};
    }
  }
  Index offset = 0;
  for (auto* each : in_order(all)) {
    each->second.offset_bytes = offset;
    offset += each->second.global.count() * size_bytes(DType::f32);
  }
  return all;
}

/// Row by row along the last dim.
void write_box(const File& file, const FilePlace& place, const Box& box, const float* data) {
  if (box.count() == 0) return;
  const Shape strides = place.global.packed_strides();
  const int dims = place.global.dims();
  const Index row = dims == 0 ? 1 : box.size.back();
  for (Index r = 0; r < box.count() / row; ++r) {
    Index rest = r, element = dims == 0 ? 0 : box.begin[dims - 1];
    for (int d = dims - 2; d >= 0; --d) {
      element += (box.begin[d] + rest % box.size[d]) * strides[d];
      rest /= box.size[d];
    }
    file.write_at(place.offset_bytes + element * size_bytes(DType::f32), data + r * row,
                  row * size_bytes(DType::f32));
  }
}

std::string index_text(std::map<std::string, FilePlace> all) {
  std::ostringstream index;
  for (const auto* each : in_order(all)) {
    const FilePlace& place = each->second;
    index << each->first << ' ';
    for (int d = 0; d < place.global.dims(); ++d) index << (d > 0 ? "x" : "") << place.global[d];
    index << (place.global.dims() == 0 ? "- " : " ") << place.offset_bytes << '\n';
  }
  return index.str();
}

void require_output(const std::string& path, const OutputKind& kind) {
  const std::string wrong = why_no_output(path, kind);
  require(wrong.empty(), "--dump-tensors: ", path, ' ', wrong);
}

/// The files of one dump, on the rank that makes them.
class DumpFiles {
 public:
  explicit DumpFiles(const std::string& prefix)
      : index_(prefix + ".index"), tensors_(behind_links(prefix + ".f32")) {
    require_output(index_, outputs::tensor_index);
    require_output(tensors_, kind_beside(index_));
    fresh_.emplace(tensors_, HeldPath::Kind::file, Unfinished::Over::file);
  }
  /// Where all ranks write the tensors.
  const std::string& path() const { return fresh_->path(); }
  /// An index never accompanies the tensors of another job.
  void finish(const std::map<std::string, FilePlace>& all) {
    File::open_to_write(path(), Caching::buffered).sync();
    remove_file(tensors_);
    write_output(index_, index_text(all), outputs::tensor_index);
    fresh_->finish();
  }

 private:
  std::string index_, tensors_;
  std::optional<Unfinished> fresh_;
};

}  // namespace

void dump_tensors(const std::string& prefix, const std::vector<TensorPart>& mine,
                  const Context& context) {
  const Host& host = context.host();
  const std::map<std::string, FilePlace> all = places(mine, host);
  std::optional<DumpFiles> files;
  agree_or_stop(host, [&] {
    if (host.rank() == 0) files.emplace(prefix);
  });
  const std::string path = broadcast_text(host, files ? files->path() : "");
  agree_or_stop(host, [&] {
    File file = File::open_to_write(path, Caching::buffered);
    std::vector<float> values;
    for (const TensorPart& part : mine)
      for (std::size_t i = 0; i < part.boxes.size(); ++i) {
        const Box& box = part.extent.boxes[i];
        const DType type = part.extent.dtype;
        values.resize(static_cast<std::size_t>(box.count()));
        context.stream().copy(values.data(), part.boxes[i], box.count() * size_bytes(type));
        context.stream().synchronize();
        if (type == DType::bf16) store::widen_in_place(values.data(), box.count());
        write_box(file, all.at(part.extent.name), box, values.data());
      }
    file.close();
  });
  agree_or_stop(host, [&] {
    if (files) files->finish(all);
  });
}

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
  if (context.mesh().coordinate(Role::shard) == 0 || flat.options().update == Update::sharded)
    mine = parts(flat, flat.state_extents(), gradient_at);
  dump_tensors(prefix + ".gradients", mine, context);
}

}  // namespace trireme::train
