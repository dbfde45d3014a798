// Segments are sorted once, so that a block finds its own by binary search.
#include "runtime/store/image.h"

#include <algorithm>
#include <utility>

#include "trireme/core/error.h"

namespace trireme::store {

namespace {

const std::byte* at(const void* data, Index offset) {
  return data == nullptr ? nullptr : static_cast<const std::byte*>(data) + offset;
}

}  // namespace

Image::Image(FileLayout layout) : layout_(std::move(layout)) {
  add_pieces();
  add_structure();
  std::vector<Bytes> parts;
  for (Index block = 0; block < blocks(); ++block) {
    collect(block, parts);
    most_parts_ = std::max(most_parts_, static_cast<Index>(parts.size()));
  }
}

void Image::add_pieces() {
  for (const Piece& piece : layout_.pieces) {
    if (piece.bytes() == 0) continue;
    require(piece.data != nullptr, "the piece of tensor ", piece.tensor, " at ", piece.offset,
            " has no memory to be copied from");
    segments_.push_back({piece.offset, {piece.data, piece.bytes(), piece.memory}});
  }
  std::sort(segments_.begin(), segments_.end(),
            [](const Segment& a, const Segment& b) { return a.offset < b.offset; });
  Index end = 0;
  for (const Segment& s : segments_) {
    require(s.offset >= end && s.end() <= layout_.bytes, "a piece at [", s.offset, ", ", s.end(),
            ") of a file overlaps the one before (which ends at ", end, ") or leaves the file of ",
            layout_.bytes, " bytes");
    end = s.end();
  }
}

// The bytes of a piece take precedence: only the structure between the pieces is kept.
void Image::add_structure() {
  std::vector<Segment> between;
  auto piece = segments_.cbegin();
  for (const FileLayout::Run& run : layout_.structure) {
    const Index end = run.offset + static_cast<Index>(run.bytes.size());
    require(run.offset >= 0 && end <= layout_.bytes, "structure at [", run.offset, ", ", end,
            ") leaves the file of ", layout_.bytes, " bytes");
    for (Index from = run.offset; from < end;) {
      while (piece != segments_.cend() && piece->end() <= from) ++piece;
      const bool covered = piece != segments_.cend() && piece->offset <= from;
      const Index limit = piece == segments_.cend() ? end : covered ? piece->end() : piece->offset;
      const Index to = std::min(end, limit);
      if (!covered) between.push_back({from, {at(run.bytes.data(), from - run.offset), to - from}});
      from = to;
    }
  }
  const auto middle = static_cast<std::ptrdiff_t>(segments_.size());
  segments_.insert(segments_.end(), between.begin(), between.end());
  std::inplace_merge(segments_.begin(), segments_.begin() + middle, segments_.end(),
                     [](const Segment& a, const Segment& b) { return a.offset < b.offset; });
}

Index Image::bytes_of(Index block) const {
  return std::min(block_bytes, bytes() - block * block_bytes);
}

void Image::collect(Index block, std::vector<Bytes>& parts) const {
  parts.clear();
  Index from = block * block_bytes;
  const Index end = from + bytes_of(block);
  auto segment = std::upper_bound(segments_.begin(), segments_.end(), from,
                                  [](Index value, const Segment& s) { return value < s.end(); });
  for (; from < end; ++segment) {
    const Index begin = segment == segments_.end() ? end : std::min(end, segment->offset);
    if (begin > from) parts.push_back({nullptr, begin - from});
    if (begin == end) return;
    const Index start = std::max(from, begin), stop = std::min(end, segment->end());
    parts.push_back(
        {at(segment->bytes.data, start - segment->offset), stop - start, segment->bytes.memory});
    from = stop;
  }
}

}  // namespace trireme::store
