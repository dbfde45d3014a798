// BlockReader: blocks of a step's files, read in long runs and checked. Every reader of this module
// uses it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/core/buffer.h"

#include "runtime/store/file.h"
#include "runtime/store/manifest.h"

namespace trireme::store {

inline constexpr Index most_blocks_read = 8;  // in one run

/// Consecutive blocks of one file.
struct BlockRun {
  int file = 0;  // index in the manifest
  Index first = 0, count = 0;
};

/// Bytes of block `block` of a file.
Index bytes_of_block(const Manifest::File& file, Index block);
/// What is wrong with a file without reading it: "is missing", "has 5 bytes instead of 7"; "" when
/// nothing is.
std::string size_problem(const std::string& directory, const Manifest::File& file);
/// " (tensor a)", " (tensors a, b, c and 9 more)" for what lies in bytes [from, to) of a file; "
/// (structure)" for none.
std::string tensors_at(const Manifest& manifest, int file, Index from, Index to);
/// "block 17 (tensor a) is damaged"
std::string damage(const Manifest& manifest, int file, Index block);

/// Reads blocks for one thread.
class BlockReader {
 public:
  BlockReader(const std::string& directory, const Manifest& manifest);

  struct Result {
    const std::byte* data = nullptr;  // begin of the first block; valid until the next read
    Index bytes = 0;
    std::string problem;         // with the file as a whole: nothing was read
    std::vector<Index> damaged;  // blocks with another checksum
  };
  Result read(const BlockRun& run);

 private:
  void read_and_check(const BlockRun& run, Result& result);

  const std::string& directory_;
  const Manifest& manifest_;
  const Buffer buffer_;
  std::optional<File> file_;
  int file_index_ = -1;
};

}  // namespace trireme::store
