// How a box of a tensor is named, typed and shaped as an HDF5 dataset: what shards, checkpoint.h5
// and the comparison of a file with its manifest have in common.
#pragma once

#include <string>

#include "trireme/core/box.h"

#include "runtime/store/hdf5/handle.h"

namespace trireme::hdf5 {

/// "parameters/wte/0_512"; "state/step/0" for a scalar.
std::string dataset_path(const std::string& tensor, const Shape& begin);
/// Throws: Error, unless `tensor` is a path of groups that HDF5 keeps as it is, and `box` is a
/// part, not empty, of `global`.
void require_storable(const std::string& tensor, const Shape& global, const Box& box);

/// The type in a file: little-endian; bf16 is a custom 16-bit float, which HDF5 and h5py convert.
Handle make_type(DType dtype);
/// Scalar when there are no dims.
Handle make_space(const Shape& shape);

/// Access to files: metadata with checksums (format of HDF5 1.10), no lock files, closing fails
/// while anything is open.
Handle make_file_access();

}  // namespace trireme::hdf5
