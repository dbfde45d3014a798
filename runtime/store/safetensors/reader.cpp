// First the plan: which bytes of which file hold something wanted, as pieces in order; then threads
// that read a piece each and convert it. Pieces are announced to the kernel (POSIX_FADV_WILLNEED),
// so that many requests wait in the disk's queue. One stream that the kernel reads ahead by itself
// comes in larger pages, but was not faster with the conversion beside it, and took 2 to 3 times as
// long where a virtual machine gets memory from its host.
#include "runtime/store/safetensors/reader.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "trireme/core/buffer.h"
#include "trireme/core/error.h"
#include "trireme/core/thread_pool.h"

#include "runtime/core/at.h"
#include "runtime/core/round_up.h"
#include "runtime/core/seconds_since.h"
#include "runtime/store/file.h"
#include "runtime/store/safetensors/element.h"

namespace trireme::safetensors {
namespace {

constexpr Index tile = 64;                      // rows and columns that are transposed at a time
constexpr Index largest_gap = Index{64} << 10;  // bytes between pieces that are read with them
constexpr std::size_t pieces_ahead = 32;        // of each thread, announced to the kernel
constexpr Index segment_bytes = 1024;           // of a row, hashed together
constexpr Index call_bytes = Index{8} << 10;    // what a read costs, as bytes that are copied

/// Whole rows [row, row + rows) of a rectangle's tensor: bytes [begin, end) of a file.
struct Use {
  int file;
  Index begin, end;
  std::size_t rectangle;
  Index row, rows;
};

/// Bytes [first, first + count) of each row of a tensor.
struct Span {
  Index first = 0, count = 0;
};

/// Rows in memory, or the same bytes of each.
struct RowBytes {
  const std::byte* data;  // byte `first` of the first one
  Index first, stride;
  const std::byte* at(Index row, Index byte) const { return data + row * stride + (byte - first); }
};

/// Bytes [begin, end) of a file, and its uses [first_use, last_use).
struct Piece {
  int file;
  Index begin, end;
  std::size_t first_use, last_use;
  bool by_rows = false;  // of the rows of its only use, what is wanted() alone is read
};

Element element_of(const LocatedTensor& tensor) {
  const std::optional<Element> element = parse_element(tensor.type);
  require(element, "tensor ", tensor.name, " has the type ", tensor.type, "; ", listed_elements(),
          " are read");
  return *element;
}

/// Returns the element at `from`, of which to_f32() has made `value`, and what is wrong with it.
std::string why_not_read(Element element, const std::byte* from, float value) {
  double stored = static_cast<double>(value);
  if (element == Element::f64) std::memcpy(&stored, from, sizeof stored);
  if (std::isfinite(stored))
    return str(stored, ", beyond the range of fp32, in which models are kept: at most ",
               std::numeric_limits<float>::max());
  return str(stored, ": the model is damaged, or was after it was trained");
}

/// Of splitmix64 (Steele, Lea, Flood 2014, doi:10.1145/2660193.2660195).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e37'79b9'7f4a'7c15u;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9u;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11ebu;
  return x ^ (x >> 31);
}

Index row_bytes_of(const LocatedTensor& tensor) {
  return rows_of(tensor.shape).columns * size_bytes(element_of(tensor));
}

/// Of each row: the segments whose first byte the rectangle has, where it counts.
Span counted(const Rectangle& r) {
  const Index item = size_bytes(element_of(*r.tensor)), end = (r.column + r.columns) * item;
  const Index first = round_up(r.column * item, segment_bytes);
  if (!r.counts || first >= end) return {};
  return {first, std::min(round_up(end, segment_bytes), row_bytes_of(*r.tensor)) - first};
}

/// Of each row: the rectangle, and what it counts.
Span wanted(const Rectangle& r) {
  const Index item = size_bytes(element_of(*r.tensor)), first = r.column * item;
  const Span sums = counted(r);
  return {first, std::max(first + r.columns * item, sums.first + sums.count) - first};
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
  void add_piece(std::size_t use);
  bool pays_by_rows(std::size_t first, std::size_t last) const;
  void read_pieces(const std::function<void(Index)>& has_read);
  const Piece* read_next(std::byte* data, Index& bytes);
  void read_bytes(const Piece& piece, const File& file, Index offset, std::byte* data,
                  Index bytes) const;
  Index read_piece(const Piece& piece, const File& file, std::byte* data) const;
  void convert(const Use& use, const RowBytes& rows) const;
  std::uint64_t sum(const Use& use, const RowBytes& rows) const;
  std::uint64_t use_piece(const Piece& piece, const std::byte* data) const;
  void announce(std::size_t index, int opened, const File& file) const;
  std::string path_of(const Piece& piece) const {
    return directory_.path + '/' + directory_.files[at(piece.file)];
  }

  const Directory& directory_;
  const std::vector<Rectangle>& rectangles_;
  std::vector<Use> uses_;
  std::vector<Piece> pieces_;
  Index bytes_used_ = 0, largest_piece_ = 0;

  std::mutex turn_;  // guards:
  std::size_t next_piece_ = 0;
  std::shared_ptr<const File> file_;
  int opened_ = -1;

  std::size_t ahead_of_reads_ = 0;  // pieces, announced

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

/// Of uses of the same rows: whether to read their columns alone.
bool RowReader::pays_by_rows(std::size_t first, std::size_t last) const {
  Index cost = 0;
  for (std::size_t i = first; i < last; ++i)
    cost += wanted(rectangles_[uses_[i].rectangle]).count + call_bytes;
  return cost < row_bytes_of(*rectangles_[uses_[first].rectangle].tensor);
}

/// Reads it together with the one before where they are near.
void RowReader::add_piece(std::size_t i) {
  const Use& use = uses_[i];
  if (!pieces_.empty() && !pieces_.back().by_rows) {
    Piece& last = pieces_.back();
    const Index end = std::max(last.end, use.end);
    if (last.file == use.file && use.begin <= last.end + largest_gap &&
        end - last.begin <= piece_bytes) {
      last.end = end;
      last.last_use = i + 1;
      return;
    }
  }
  pieces_.push_back({use.file, use.begin, use.end, i, i + 1});
}

void RowReader::plan_pieces() {
  const auto rows = [](const Use& use) { return std::tie(use.file, use.begin, use.end); };
  std::sort(uses_.begin(), uses_.end(), [&](const Use& a, const Use& b) {
    return std::tuple_cat(rows(a), std::tie(a.rectangle)) <
           std::tuple_cat(rows(b), std::tie(b.rectangle));
  });
  for (std::size_t i = 0, end; i < uses_.size(); i = end) {
    for (end = i + 1; end < uses_.size() && rows(uses_[end]) == rows(uses_[i]);) ++end;
    const bool by_rows = pays_by_rows(i, end);
    for (std::size_t use = i; use < end; ++use)
      if (by_rows)
        pieces_.push_back({uses_[use].file, uses_[use].begin, uses_[use].end, use, use + 1, true});
      else
        add_piece(use);
  }
  for (const Piece& piece : pieces_)
    largest_piece_ = std::max(largest_piece_, piece.end - piece.begin);
}

/// Asks the kernel to read a piece, if it is one of the file that is `opened`.
void RowReader::announce(std::size_t index, int opened, const File& file) const {
  if (index >= pieces_.size() || pieces_[index].file != opened) return;
  file.will_need(pieces_[index].begin, pieces_[index].end - pieces_[index].begin);
}

void RowReader::convert(const Use& use, const RowBytes& rows) const {
  const Rectangle& r = rectangles_[use.rectangle];
  const Element element = element_of(*r.tensor);
  const Index item = size_bytes(element), first = r.column * item;
  float* to = r.data + (use.row - r.row) * r.row_stride;
  const auto take = [&](const std::byte* from, Index count, float* values) {
    to_f32(element, from, count, values);
    const Index bad = first_not_finite(values, count);
    if (bad >= 0)
      throw Error(str("tensor ", r.tensor->name, " has the value ",
                      why_not_read(element, from + bad * item, values[bad])));
  };
  if (r.column_stride == 1 && r.columns * item == rows.stride && r.row_stride == r.columns)
    return take(rows.at(0, first), use.rows * r.columns, to);
  if (r.column_stride == 1) {
    for (Index i = 0; i < use.rows; ++i) take(rows.at(i, first), r.columns, to + i * r.row_stride);
    return;
  }
  float part[tile][tile];
  for (Index column = 0; column < r.columns; column += tile)
    for (Index row = 0; row < use.rows; row += tile) {
      const Index wide = std::min(tile, r.columns - column), high = std::min(tile, use.rows - row);
      for (Index i = 0; i < high; ++i) take(rows.at(row + i, first + column * item), wide, part[i]);
      for (Index j = 0; j < wide; ++j)
        for (Index i = 0; i < high; ++i)
          to[(row + i) * r.row_stride + (column + j) * r.column_stride] = part[i][j];
    }
}

std::uint64_t RowReader::sum(const Use& use, const RowBytes& rows) const {
  const Rectangle& r = rectangles_[use.rectangle];
  const Span counts = counted(r);
  if (counts.count == 0) return 0;
  const std::string& tensor = r.tensor->name;
  const Checksum name = checksum(tensor.data(), static_cast<Index>(tensor.size()));
  std::uint64_t all = 0;
  for (Index i = 0; i < use.rows; ++i) {
    const std::uint64_t row = mixed(name.low + static_cast<std::uint64_t>(use.row + i));
    for (Index byte = counts.first; byte < counts.first + counts.count; byte += segment_bytes) {
      const Index bytes = std::min(segment_bytes, counts.first + counts.count - byte);
      const Checksum part = checksum(rows.at(i, byte), bytes);
      const std::uint64_t place = mixed(row + static_cast<std::uint64_t>(byte / segment_bytes));
      all += mixed(part.low + mixed(part.high + place));
    }
  }
  return all;
}

void RowReader::read_bytes(const Piece& piece, const File& file, Index offset, std::byte* data,
                           Index bytes) const {
  const Index got = file.read_at(offset, data, bytes);
  require(got == bytes, path_of(piece), ": ends at byte ", offset + got, " (tensor ",
          rectangles_[uses_[piece.first_use].rectangle].tensor->name, ")");
}

/// Returns: the bytes that were read.
Index RowReader::read_piece(const Piece& piece, const File& file, std::byte* data) const {
  if (!piece.by_rows) {
    read_bytes(piece, file, piece.begin, data, piece.end - piece.begin);
    return piece.end - piece.begin;
  }
  const Use& use = uses_[piece.first_use];
  const Rectangle& r = rectangles_[use.rectangle];
  const Span part = wanted(r);
  for (Index i = 0; i < use.rows; ++i)
    read_bytes(piece, file, use.begin + i * row_bytes_of(*r.tensor) + part.first,
               data + i * part.count, part.count);
  return use.rows * part.count;
}

/// Returns: the piece that is in `data` then, of so many bytes; nothing after the last one.
const Piece* RowReader::read_next(std::byte* data, Index& bytes) {
  std::unique_lock lock(turn_);
  if (next_piece_ == pieces_.size() || failed_) return nullptr;
  const std::size_t index = next_piece_++;
  const Piece& piece = pieces_[index];
  const bool opens = opened_ != piece.file;
  if (opens) file_ = std::make_shared<const File>(File::open(path_of(piece), Caching::buffered));
  opened_ = piece.file;
  const std::shared_ptr<const File> file = file_;  // others may open the next one
  lock.unlock();
  for (std::size_t i = opens ? 0 : ahead_of_reads_; i <= ahead_of_reads_; ++i)
    announce(index + i, piece.file, *file);
  bytes = read_piece(piece, *file, data);
  return &piece;
}

std::uint64_t RowReader::use_piece(const Piece& piece, const std::byte* data) const {
  std::uint64_t sum_of_piece = 0;
  for (std::size_t i = piece.first_use; i < piece.last_use; ++i) {
    const Rectangle& r = rectangles_[uses_[i].rectangle];
    const Span part = wanted(r);
    const RowBytes rows =
        piece.by_rows ? RowBytes{data, part.first, part.count}
                      : RowBytes{data + (uses_[i].begin - piece.begin), 0, row_bytes_of(*r.tensor)};
    convert(uses_[i], rows);
    sum_of_piece += sum(uses_[i], rows);
  }
  return sum_of_piece;
}

void RowReader::read_pieces(const std::function<void(Index)>& has_read) {
  const Buffer buffer = allocate_host(largest_piece_);
  Index bytes = 0;
  while (const Piece* piece = read_next(buffer.data(), bytes)) {
    bytes_read_ += bytes;
    sum_ += use_piece(*piece, buffer.data());
    if (has_read) has_read(bytes);
  }
}

RowsRead RowReader::read(int threads, const std::function<void(Index)>& has_read) {
  const auto parts = static_cast<int>(
      std::clamp<Index>(static_cast<Index>(pieces_.size()), 1, std::max(threads, 1)));
  ahead_of_reads_ = pieces_ahead * static_cast<std::size_t>(parts);
  ThreadPool pool(parts);
  pool.parallel_for(parts, 1, [&](Index, Index) {
    try {
      read_pieces(has_read);
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
  const double begin = steady_seconds();
  RowsRead read = RowReader(directory, rectangles).read(threads, has_read);
  read.report.ms = 1e3 * seconds_since(begin);
  return read;
}

Checksum sample_of(const Directory& directory) {
  const Index all = directory.bytes();
  std::string sampled;
  Index place = 0, before = 0;  // bytes of the tensors before this one
  for (const LocatedTensor& tensor : directory.tensors) {
    for (; place < sampled_places; ++place) {
      const Index begin = all / sampled_places * place - before;
      if (begin >= tensor.bytes) break;
      const Index bytes = std::min(sampled_bytes, tensor.bytes - begin);
      std::string part(static_cast<std::size_t>(bytes), '\0');
      const std::string path = directory.file_path(tensor);
      const File file = File::open(path, Caching::buffered);
      require(file.read_at(tensor.offset + begin, part.data(), bytes) == bytes, path,
              ": ends in tensor ", tensor.name);
      sampled += part;
    }
    before += tensor.bytes;
  }
  return checksum(sampled.data(), static_cast<Index>(sampled.size()));
}

}  // namespace trireme::safetensors
