#include "runtime/store/safetensors/writer.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/core/json/json.h"
#include "runtime/store/file.h"
#include "runtime/store/safetensors/directory.h"
#include "runtime/store/safetensors/reader.h"
#include "runtime/store/write/unfinished.h"

namespace trireme::safetensors {
namespace {

using Tensors = std::vector<const WrittenTensor*>;

Index bytes_of(const WrittenTensor& tensor, Element element) {
  return tensor.shape.count() * size_bytes(element);
}

Tensors by_name(const std::vector<WrittenTensor>& tensors) {
  Tensors all;
  for (const WrittenTensor& tensor : tensors) all.push_back(&tensor);
  std::sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->name < b->name; });
  return all;
}

Header header_of(const Tensors& tensors, Element element) {
  Header header{{}, {{"format", "pt"}}};
  Index end = 0;
  for (const WrittenTensor* tensor : tensors) {
    const Index begin = end;
    end += bytes_of(*tensor, element);
    header.tensors.push_back({tensor->name, name_in_file(element), tensor->shape, begin, end});
  }
  return header;
}

/// Consecutive tensors for each file: together at most `most` bytes, or one alone.
std::vector<Tensors> cut(const Tensors& tensors, const WriteOptions& options) {
  std::vector<Tensors> files(1);
  Index bytes = 0;
  for (const WrittenTensor* tensor : tensors) {
    const Index more = bytes_of(*tensor, options.element);
    if (!files.back().empty() && bytes + more > options.max_file_bytes) {
      files.emplace_back();
      bytes = 0;
    }
    files.back().push_back(tensor);
    bytes += more;
  }
  return files;
}

/// Writes files one after the other, and reports the bytes of all of them.
class Writer {
 public:
  Writer(const Tensors& tensors, const WriteOptions& options) : options_(options) {
    for (const WrittenTensor* tensor : tensors) total_ += bytes_of(*tensor, options.element);
    values_.resize(static_cast<std::size_t>(written_piece_bytes / 4));
    stored_.resize(static_cast<std::size_t>(written_piece_bytes));
  }
  /// `file`: empty.
  void write(File file, const Tensors& tensors);

 private:
  void write_rows(const File& file, Index offset, const WrittenTensor& tensor);

  const WriteOptions& options_;
  Index done_ = 0, total_ = 0;
  std::vector<float> values_;
  std::vector<std::byte> stored_;
};

void Writer::write_rows(const File& file, Index offset, const WrittenTensor& tensor) {
  const Rows whole = rows_of(tensor.shape);
  const auto most = static_cast<Index>(values_.size());
  require(whole.columns <= most, "tensor ", tensor.name, " ", tensor.shape, " has rows of ",
          whole.columns, " elements; at most ", most, " are written at a time");
  if (tensor.shape.count() == 0) return;
  const Index step = most / whole.columns;
  bool reported = false;
  for (Index row = 0; row < whole.rows; row += step) {
    const Index rows = std::min(step, whole.rows - row), count = rows * whole.columns;
    tensor.read(row, rows, values_.data());
    const Index bad =
        options_.not_finite && !reported ? first_not_finite(values_.data(), count) : -1;
    if (bad >= 0) options_.not_finite(tensor.name, values_[static_cast<std::size_t>(bad)]);
    reported = reported || bad >= 0;
    const Index lost = from_f32(options_.element, values_.data(), count, stored_.data());
    require(lost < 0, "tensor ", tensor.name, ": element ", row * whole.columns + lost, " is ",
            lost < 0 ? 0 : values_[static_cast<std::size_t>(lost)], ", more than ",
            name(options_.element), " holds; export as bf16 or f32");
    const Index bytes = count * size_bytes(options_.element);
    file.write_at(offset, stored_.data(), bytes);
    offset += bytes;
    done_ += bytes;
    if (options_.progress) options_.progress(done_, total_);
  }
}

void Writer::write(File file, const Tensors& tensors) {
  const Header header = header_of(tensors, options_.element);
  const std::string text = header_text(header);
  const auto data_begin = static_cast<Index>(text.size());
  file.reserve(data_begin + (header.tensors.empty() ? 0 : header.tensors.back().end));
  file.write_at(0, text.data(), data_begin);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    write_rows(file, data_begin + header.tensors[i].begin, *tensors[i]);
  file.sync();
  file.close();
}

File new_file(const std::string& path) { return File::create(path, Caching::buffered); }

std::string index_text(const std::vector<Tensors>& files, const std::vector<std::string>& names,
                       const WriteOptions& options) {
  Index bytes = 0;
  std::vector<std::pair<std::string, std::string>> map;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (const WrittenTensor* tensor : files[i]) {
      bytes += bytes_of(*tensor, options.element);
      map.emplace_back(tensor->name, names[i]);
    }
  return to_text(Json(Json::Object{{"metadata", Json::Object{{"total_size", bytes}}},
                                   {"weight_map", Json::Object(map.begin(), map.end())}})) +
         '\n';
}

}  // namespace

void write_file(const std::string& path, const std::vector<WrittenTensor>& tensors,
                const WriteOptions& options) {
  Unfinished unfinished(path, HeldPath::Kind::file);
  const Tensors all = by_name(tensors);
  Writer(all, options).write(File::open_to_write(unfinished.path(), Caching::buffered), all);
  unfinished.finish();
}

void write_model(const std::string& path, const std::vector<WrittenTensor>& tensors,
                 const WriteOptions& options) {
  const Tensors all = by_name(tensors);
  const std::vector<Tensors> files = cut(all, options);
  Writer writer(all, options);
  if (files.size() == 1) {
    writer.write(new_file(path + '/' + single_file_name), all);
  } else {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < files.size(); ++i) {
      names.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size()));
      writer.write(new_file(path + '/' + names.back()), files[i]);
    }
    write_whole(path + '/' + index_name, index_text(files, names, options));
  }
  sync_directory(path);
}

}  // namespace trireme::safetensors
