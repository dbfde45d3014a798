// First the plan: which bytes of which file hold something wanted, as pieces in order; then threads
// that read them and convert.
#include "runtime/store/safetensors/reader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <tuple>

#include "trireme/core/buffer.h"
#include "trireme/core/error.h"
#include "trireme/core/thread_pool.h"

#include "runtime/core/at.h"
#include "runtime/store/file.h"
#include "runtime/store/safetensors/element.h"

namespace trireme::safetensors {
namespace {

constexpr Index tile = 64;                      // rows and columns that are transposed at a time
constexpr Index largest_gap = Index{64} << 10;  // bytes between pieces that are read with them
constexpr int pieces_ahead = 2;                 // of each thread, announced to the kernel

/// Whole rows [row, row + rows) of a rectangle's tensor: bytes [begin, end) of a file.
struct Use {
  int file;
  Index begin, end;
  std::size_t rectangle;
  Index row, rows;
};

/// Bytes [begin, end) of a file, and its uses [first_use, last_use).
struct Piece {
  int file;
  Index begin, end;
  std::size_t first_use, last_use;
};

Element element_of(const LocatedTensor& tensor) {
  const std::optional<Element> element = parse_element(tensor.type);
  require(element, "tensor ", tensor.name, " has the type ", tensor.type,
          "; F32, BF16 and F16 are read");
  return *element;
}

/// Of splitmix64 (Steele, Lea, Flood 2014, doi:10.1145/2660193.2660195).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e37'79b9'7f4a'7c15u;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9u;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11ebu;
  return x ^ (x >> 31);
}

class RowReader {
 public:
  RowReader(const Directory& directory, const std::vector<Rectangle>& rectangles)
      : directory_(directory), rectangles_(rectangles) {
    for (std::size_t i = 0; i < rectangles.size(); ++i) add_uses(i);
    plan_pieces();
  }
  RowsRead read(int threads, const std::function<void(Index)>& has_read);

 private:
  void add_uses(std::size_t index);
  void plan_pieces();
  void read_pieces(int threads, const std::function<void(Index)>& has_read);
  void convert(const Use& use, const std::byte* rows) const;
  std::uint64_t sum(const Use& use, const std::byte* rows) const;
  void announce(std::size_t index, const Piece& current, const File& file) const;
  std::string path_of(const Piece& piece) const {
    return directory_.path + '/' + directory_.files[at(piece.file)];
  }

  const Directory& directory_;
  const std::vector<Rectangle>& rectangles_;
  std::vector<Use> uses_;
  std::vector<Piece> pieces_;
  Index bytes_used_ = 0, largest_piece_ = 0;

  std::atomic<std::size_t> next_piece_{0};
  std::atomic<Index> bytes_read_{0};
  std::atomic<std::uint64_t> sum_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::string failure_;
};

// Cut at multiples of the same number of rows, so that rectangles side by side share their reads.
void RowReader::add_uses(std::size_t index) {
  const Rectangle& r = rectangles_[index];
  const LocatedTensor& tensor = *r.tensor;
  const Rows whole = rows_of(tensor.shape);
  const Index item = size_bytes(element_of(tensor)), row_bytes = whole.columns * item;
  require(0 <= r.row && 0 <= r.rows && r.row + r.rows <= whole.rows && 0 <= r.column &&
              0 <= r.columns && r.column + r.columns <= whole.columns,
          "tensor ", tensor.name, " ", tensor.shape, ": rows ", r.row, " to ", r.row + r.rows,
          " and columns ", r.column, " to ", r.column + r.columns, " are not inside");
  bytes_used_ += r.rows * r.columns * item;
  if (r.rows * r.columns == 0) return;
  const Index step = std::max<Index>(piece_bytes / row_bytes, 1);
  for (Index row = r.row; row < r.row + r.rows;) {
    const Index end = std::min((row / step + 1) * step, r.row + r.rows);
    uses_.push_back({tensor.file, tensor.offset + row * row_bytes, tensor.offset + end * row_bytes,
                     index, row, end - row});
    row = end;
  }
}

void RowReader::plan_pieces() {
  std::sort(uses_.begin(), uses_.end(), [](const Use& a, const Use& b) {
    return std::tie(a.file, a.begin, a.end, a.rectangle) <
           std::tie(b.file, b.begin, b.end, b.rectangle);
  });
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    const Use& use = uses_[i];
    if (!pieces_.empty()) {
      Piece& last = pieces_.back();
      const Index end = std::max(last.end, use.end);
      if (last.file == use.file && use.begin <= last.end + largest_gap &&
          end - last.begin <= piece_bytes) {
        last.end = end;
        last.last_use = i + 1;
        continue;
      }
    }
    pieces_.push_back({use.file, use.begin, use.end, i, i + 1});
  }
  for (const Piece& piece : pieces_)
    largest_piece_ = std::max(largest_piece_, piece.end - piece.begin);
}

void RowReader::announce(std::size_t index, const Piece& current, const File& file) const {
  if (index >= pieces_.size() || pieces_[index].file != current.file) return;
  file.will_need(pieces_[index].begin, pieces_[index].end - pieces_[index].begin);
}

void RowReader::convert(const Use& use, const std::byte* rows) const {
  const Rectangle& r = rectangles_[use.rectangle];
  const Element element = element_of(*r.tensor);
  const Index item = size_bytes(element), row_bytes = rows_of(r.tensor->shape).columns * item;
  const std::byte* first = rows + r.column * item;
  float* to = r.data + (use.row - r.row) * r.row_stride;
  if (r.column_stride == 1 && r.columns * item == row_bytes && r.row_stride == r.columns)
    return to_f32(element, first, use.rows * r.columns, to);
  if (r.column_stride == 1) {
    for (Index i = 0; i < use.rows; ++i)
      to_f32(element, first + i * row_bytes, r.columns, to + i * r.row_stride);
    return;
  }
  float part[tile][tile];
  for (Index column = 0; column < r.columns; column += tile)
    for (Index row = 0; row < use.rows; row += tile) {
      const Index wide = std::min(tile, r.columns - column), high = std::min(tile, use.rows - row);
      for (Index i = 0; i < high; ++i)
        to_f32(element, first + (row + i) * row_bytes + column * item, wide, part[i]);
      for (Index j = 0; j < wide; ++j)
        for (Index i = 0; i < high; ++i)
          to[(row + i) * r.row_stride + (column + j) * r.column_stride] = part[i][j];
    }
}

std::uint64_t RowReader::sum(const Use& use, const std::byte* rows) const {
  const Rectangle& r = rectangles_[use.rectangle];
  if (!r.counts || r.column > 0) return 0;
  const LocatedTensor& tensor = *r.tensor;
  const Checksum name = checksum(tensor.name.data(), static_cast<Index>(tensor.name.size()));
  const Index row_bytes = rows_of(tensor.shape).columns * size_bytes(element_of(tensor));
  std::uint64_t all = 0;
  for (Index i = 0; i < use.rows; ++i) {
    const Checksum row = checksum(rows + i * row_bytes, row_bytes);
    const auto number = static_cast<std::uint64_t>(use.row + i);
    all += mixed(row.low + mixed(row.high + mixed(name.low + number)));
  }
  return all;
}

void RowReader::read_pieces(int threads, const std::function<void(Index)>& has_read) {
  const Buffer buffer = allocate_host(largest_piece_);
  std::optional<File> file;
  int opened = -1;
  while (!failed_) {
    const std::size_t index = next_piece_++;
    if (index >= pieces_.size()) return;
    const Piece& piece = pieces_[index];
    if (opened != piece.file) {
      file = File::open(path_of(piece), Caching::buffered);
      opened = piece.file;
    }
    announce(index + static_cast<std::size_t>(threads * pieces_ahead), piece, *file);
    const Index bytes = piece.end - piece.begin;
    const Index got = file->read_at(piece.begin, buffer.data(), bytes);
    require(got == bytes, path_of(piece), ": ends at byte ", piece.begin + got, " (tensor ",
            rectangles_[uses_[piece.first_use].rectangle].tensor->name, ")");
    std::uint64_t sum_of_piece = 0;
    for (std::size_t i = piece.first_use; i < piece.last_use; ++i) {
      const std::byte* rows = buffer.data() + (uses_[i].begin - piece.begin);
      convert(uses_[i], rows);
      sum_of_piece += sum(uses_[i], rows);
    }
    sum_ += sum_of_piece;
    bytes_read_ += bytes;
    if (has_read) has_read(bytes);
  }
}

RowsRead RowReader::read(int threads, const std::function<void(Index)>& has_read) {
  const auto parts = static_cast<int>(
      std::clamp<Index>(static_cast<Index>(pieces_.size()), 1, std::max(threads, 1)));
  ThreadPool pool(parts);
  pool.parallel_for(parts, 1, [&](Index, Index) {
    try {
      read_pieces(parts, has_read);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      if (failure_.empty()) failure_ = error.what();
      failed_ = true;
    }
  });
  require(!failed_, failure_);
  return {{.bytes_used = bytes_used_, .bytes_read = bytes_read_}, sum_};
}

}  // namespace

Rows rows_of(const Shape& shape) {
  if (shape.dims() < 2) return {shape.count(), 1};
  return {shape.rows(), shape.back()};
}

RowsRead read_rectangles(const Directory& directory, const std::vector<Rectangle>& rectangles,
                         int threads, const std::function<void(Index bytes)>& has_read) {
  const auto begin = std::chrono::steady_clock::now();
  RowsRead read = RowReader(directory, rectangles).read(threads, has_read);
  read.report.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return read;
}

}  // namespace trireme::safetensors
