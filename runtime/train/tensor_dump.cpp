#include "runtime/train/tensor_dump.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "trireme/comm/agree.h"

#include "runtime/store/file.h"
#include "runtime/store/read/widen.h"

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

void write_index(const std::string& path, std::map<std::string, FilePlace> all) {
  std::ofstream index(path);
  for (const auto* each : in_order(all)) {
    const FilePlace& place = each->second;
    index << each->first << ' ';
    for (int d = 0; d < place.global.dims(); ++d) index << (d > 0 ? "x" : "") << place.global[d];
    index << (place.global.dims() == 0 ? "- " : " ") << place.offset_bytes << '\n';
  }
  index.flush();
  require(index.good(), path, ": cannot be written");
}

}  // namespace

void dump_tensors(const std::string& prefix, const std::vector<TensorPart>& mine,
                  const Context& context) {
  const Host& host = context.host();
  const std::map<std::string, FilePlace> all = places(mine, host);
  const std::string path = prefix + ".f32";
  agree_or_stop(host, [&] {
    if (host.rank() != 0) return;
    remove_file(path);  // of an earlier run
    File::create(path, Caching::buffered).close();
    write_index(prefix + ".index", all);
  });
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
}

}  // namespace trireme::train
