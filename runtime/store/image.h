// Image: the bytes of a whole file, scattered in memory (structure, pieces, zeros), block by block.
#pragma once

#include <vector>

#include "runtime/store/checksum.h"
#include "runtime/store/file_layout.h"

namespace trireme::store {

class Image {
 public:
  /// The memory of the pieces is borrowed. Throws: Error when they have none, overlap, or leave the
  /// file.
  explicit Image(FileLayout layout);

  Index bytes() const { return layout_.bytes; }
  Index blocks() const { return blocks_of(layout_.bytes); }
  /// Size of block `block`, as it lies in the file.
  Index bytes_of(Index block) const;
  /// The largest number of parts of a block.
  Index most_parts() const { return most_parts_; }
  /// What block `block` consists of, front to back, in `parts`.
  void collect(Index block, std::vector<Bytes>& parts) const;

 private:
  struct Segment {
    Index offset;
    Bytes bytes;
    Index end() const { return offset + bytes.count; }
  };
  void add_pieces();
  void add_structure();

  FileLayout layout_;
  std::vector<Segment> segments_;  // ascending, not overlapping; zeros are between them
  Index most_parts_ = 0;
};

}  // namespace trireme::store
