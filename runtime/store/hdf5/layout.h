// LayoutFile: an HDF5 file that is written only to learn what HDF5 writes: same datasets, same
// bytes (no times, no ids). It is a ScratchFile.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/store/file_layout.h"
#include "runtime/store/hdf5/handle.h"

namespace trireme::hdf5 {

/// Where scratch files go, best first: memory, then disk.
std::vector<std::string> scratch_directories();

/// ScratchFile: a temporary file, in memory where possible, in which HDF5 lays out files. It is
/// sparse: it may be far larger than the memory it takes.
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

class LayoutFile {
 public:
  /// `metadata_bytes`: more than HDF5 will write. This space is reserved first, because HDF5 1.10
  /// can crash on a full disk.
  explicit LayoutFile(Index metadata_bytes);

  /// A dataset at `path`, "a/b/dataset", with the groups it lies in. `properties`: of its creation.
  Handle create_dataset(const std::string& path, DType dtype, const Shape& shape,
                        const Handle& properties);
  /// Size and structure of what was created. Nothing of this file may be open.
  FileLayout finish();

 private:
  void create_groups(const std::string& path);

  ScratchFile scratch_;
  Handle group_properties_;
  Handle file_;
  std::set<std::string> groups_;
};

/// Throws: Error when the limit of file sizes is below `bytes`. To be asked before HDF5 1.10 meets
/// it, which can crash then.
void require_file_size(Index bytes);

/// Properties for creating objects of class `kind` (H5P_DATASET_CREATE, ...), without times.
Handle make_properties(hid_t kind);

}  // namespace trireme::hdf5
