#include "runtime/interop/hf_source.h"

#include <algorithm>
#include <cstring>

#include "trireme/core/buffer.h"
#include "trireme/core/error.h"

#include "runtime/store/file.h"

namespace trireme::interop {

using namespace safetensors;

HfSource::HfSource(const Directory& files, const std::vector<HfView>& views,
                   std::function<void(Index)> progress)
    : files_(files), progress_(std::move(progress)) {
  for (const HfView& view : views) views_.emplace(view.logical, view);
}

const HfView& HfSource::view(const Wanted& wanted) const {
  const std::string_view name = std::string_view(wanted.tensor).substr(std::strlen(prefix));
  const auto found = views_.find(std::string(name));
  require(found != views_.end(), files_.path, ": has no tensor for ", wanted.tensor);
  return found->second;
}

bool HfSource::fills(const Wanted& wanted) const {
  return wanted.box.begin[0] + wanted.box.size[0] <= view(wanted).shape[0];
}

Rectangle HfSource::rectangle(const Wanted& wanted) const {
  const HfView& view = this->view(wanted);
  const Box& box = wanted.box;
  require(wanted.dtype == DType::f32 && (box.size.dims() == 1 || box.size.dims() == 2),
          wanted.tensor, ": tensors of f32 with one or two dims are read, not ", wanted.dtype, ' ',
          wanted.global);
  // Rows that the files lack are at the end; a box may have no others.
  const Index first = std::min(box.begin[0], view.shape[0]);
  const Index rows = std::min(view.shape[0] - first, box.size[0]);
  const bool matrix = box.size.dims() == 2;
  const Index columns = matrix ? box.size[1] : 1, column = matrix ? box.begin[1] : 0;
  const Index row = view.first_row + first;
  Rectangle r{files_.find(view.hf),
              row,
              rows,
              column,
              columns,
              static_cast<float*>(wanted.data),
              columns,
              1,
              wanted.counts};
  if (!view.transposed) return r;
  std::swap(r.row, r.column);
  std::swap(r.rows, r.columns);
  std::swap(r.row_stride, r.column_stride);
  return r;
}

ReadReport HfSource::read(const std::vector<Wanted>& wanted, int threads,
                          const std::function<void()>& has_read) {
  std::vector<Rectangle> rectangles;
  for (const Wanted& box : wanted) rectangles.push_back(rectangle(box));
  const RowsRead read = read_rectangles(files_, rectangles, threads, [&](Index bytes) {
    if (has_read) has_read();
    if (progress_) progress_(bytes);
  });
  sum_ += read.sum;
  return read.report;
}

void expect_equal(const Directory& files, const LocatedTensor& a, const LocatedTensor& b) {
  require(a.type == b.type && a.shape == b.shape, "tensor ", a.name, " is ", a.type, ' ', a.shape,
          ", ", b.name, ' ', b.type, ' ', b.shape, ", but the config ties them");
  const File file_a = File::open(files.file_path(a), Caching::buffered),
             file_b = File::open(files.file_path(b), Caching::buffered);
  const Buffer piece_a = allocate_host(piece_bytes), piece_b = allocate_host(piece_bytes);
  for (Index done = 0; done < a.bytes; done += piece_bytes) {
    const Index bytes = std::min(piece_bytes, a.bytes - done);
    require(file_a.read_at(a.offset + done, piece_a.data(), bytes) == bytes &&
                file_b.read_at(b.offset + done, piece_b.data(), bytes) == bytes,
            files.path, ": a file of ", a.name, " or ", b.name, " ends early");
    require(std::memcmp(piece_a.data(), piece_b.data(), static_cast<std::size_t>(bytes)) == 0,
            "tensors ", a.name, " and ", b.name,
            " differ, but the config ties them (tie_word_embeddings)");
  }
}

}  // namespace trireme::interop
