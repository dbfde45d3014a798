// ScratchFile: a temporary file, in memory where possible, in which HDF5 lays out files. Sparse: it
// may be far larger than the memory it takes.
#pragma once

#include <string>
#include <vector>

#include "runtime/store/file_layout.h"

namespace trireme::hdf5 {

/// Where scratch files go, best first: memory, then disk.
std::vector<std::string> scratch_directories();

class ScratchFile {
 public:
  /// Made in the first of `directories` that takes a file and has `bytes` to spare, for what will
  /// be written to it. Throws: Error that says of each directory why not.
  explicit ScratchFile(Index bytes,
                       const std::vector<std::string>& directories = scratch_directories());
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& path() const { return path_; }
  /// From now on the file goes with this object, however the process ends.
  void unlink();
  Index size() const;
  /// What is not zero, in whole pages, ascending.
  std::vector<FileLayout::Run> contents() const;

 private:
  Index seek(Index offset, int whence) const;
  void collect(Index begin, Index end, std::vector<FileLayout::Run>& runs) const;

  std::string path_;  // "" once it is unlinked
  int descriptor_ = -1;
};

}  // namespace trireme::hdf5
