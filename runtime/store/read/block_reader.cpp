// Files are opened one at a time in each thread, so thousands of shards need no more descriptors
// than threads.
#include "runtime/store/read/block_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/stat.h>

#include "trireme/core/error.h"

#include "runtime/core/round_up.h"

namespace trireme::store {

namespace {

std::string path_of(const std::string& directory, const Manifest::File& file) {
  return directory + "/" + file.name;
}

}  // namespace

Index bytes_of_block(const Manifest::File& file, Index block) {
  return std::min(block_bytes, file.bytes - block * block_bytes);
}

std::string size_problem(const std::string& directory, const Manifest::File& file) {
  struct stat status {};
  const std::string path = path_of(directory, file);
  if (::stat(path.c_str(), &status) != 0)
    return errno == ENOENT ? "is missing" : str("stat: ", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return "is not a file";
  if (status.st_size == file.bytes) return "";
  return str("has ", status.st_size, " bytes instead of ", file.bytes);
}

std::string tensors_at(const Manifest& manifest, int file, Index from, Index to) {
  constexpr std::size_t most = 3;
  std::vector<std::string> names;
  for (const Manifest::Tensor& tensor : manifest.tensors) {
    const auto lies_there = [&](const Manifest::Stored& piece) {
      const Index end = piece.offset + piece.box.count() * size_bytes(tensor.dtype);
      return piece.file == file && piece.offset < to && from < end;
    };
    if (std::any_of(tensor.pieces.begin(), tensor.pieces.end(), lies_there))
      names.push_back(tensor.name);
  }
  if (names.empty()) return " (structure)";
  const std::size_t shown = std::min(most, names.size());
  std::string text = names.size() > 1 ? " (tensors " : " (tensor ";
  for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > shown) text += str(" and ", names.size() - shown, " more");
  return text + ")";
}

std::string damage(const Manifest& manifest, int file, Index block) {
  const Index from = block * block_bytes;
  return str("block ", block, tensors_at(manifest, file, from, from + block_bytes), " is damaged");
}

BlockReader::BlockReader(const std::string& directory, const Manifest& manifest)
    : directory_(directory),
      manifest_(manifest),
      buffer_(allocate_host(most_blocks_read * block_bytes)) {}

BlockReader::Result BlockReader::read(const BlockRun& run) {
  Result result;
  const Manifest::File& file = manifest_.files[static_cast<std::size_t>(run.file)];
  if (run.file != file_index_) {
    result.problem = size_problem(directory_, file);
    if (!result.problem.empty()) return result;
  }
  try {
    read_and_check(run, result);
  } catch (const Error& e) {
    const std::string text = e.what(), path = path_of(directory_, file) + ": ";
    result.problem = text.starts_with(path) ? text.substr(path.size()) : text;
  }
  return result;
}

void BlockReader::read_and_check(const BlockRun& run, Result& result) {
  const Manifest::File& file = manifest_.files[static_cast<std::size_t>(run.file)];
  if (run.file != file_index_) {
    file_index_ = -1;
    file_ = File::open(path_of(directory_, file), Caching::direct);
    file_index_ = run.file;
  }
  const Index offset = run.first * block_bytes;
  const Index bytes = std::min(run.count * block_bytes, file.bytes - offset);
  const Index got = file_->read_at(offset, buffer_.data(), round_up(bytes, File::direct_alignment));
  require(got >= bytes, "ends at byte ", offset + got, " of ", file.bytes);
  result.data = buffer_.data();
  result.bytes = bytes;
  for (Index i = 0; i < run.count; ++i) {
    const Index block = run.first + i;
    const Checksum sum = checksum(buffer_.data() + i * block_bytes, bytes_of_block(file, block));
    if (sum != file.blocks[static_cast<std::size_t>(block)]) result.damaged.push_back(block);
  }
}

}  // namespace trireme::store
