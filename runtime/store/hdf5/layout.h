// LayoutFile: an HDF5 file that is written only to learn what HDF5 writes: same datasets, same
// bytes (no times, no ids).
#pragma once

#include <set>
#include <string>

#include "runtime/store/hdf5/handle.h"
#include "runtime/store/hdf5/scratch_file.h"

namespace trireme::hdf5 {

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
