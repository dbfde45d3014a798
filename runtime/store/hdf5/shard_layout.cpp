// Implements lay_out_shard (file_layout.h).
// Shards: each piece a contiguous dataset whose place is known as soon as it is created, and whose
// bytes HDF5 never sees.
#include <fmt/format.h>

#include "runtime/store/hdf5/dataset.h"
#include "runtime/store/hdf5/layout.h"

namespace trireme {

namespace {

using hdf5::check;
using hdf5::Handle;

// Far more than HDF5 needs (measured: 640 bytes a piece, 840 with the pages it shares with small
// pieces).
Index metadata_bytes(const std::vector<Piece>& pieces) {
  Index bytes = Index{1} << 20;
  for (const Piece& piece : pieces) bytes += 8192 + 4 * static_cast<Index>(piece.tensor.size());
  return bytes;
}

Index data_bytes(const std::vector<Piece>& pieces) {
  Index bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes();
  return bytes;
}

Handle contiguous() {
  const char* subject = "a contiguous dataset";
  Handle properties = hdf5::make_properties(H5P_DATASET_CREATE);
  check(H5Pset_layout(properties.id(), H5D_CONTIGUOUS), "H5Pset_layout", subject);
  check(H5Pset_alloc_time(properties.id(), H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time", subject);
  check(H5Pset_fill_time(properties.id(), H5D_FILL_TIME_NEVER), "H5Pset_fill_time", subject);
  return properties;
}

// One number per dim; none for a scalar.
void write_attribute(const Handle& dataset, const char* name, const Shape& values) {
  const Handle space = hdf5::make_space(Shape{values.dims()});
  const Handle attribute(
      check(H5Acreate2(dataset.id(), name, H5T_STD_I64LE, space.id(), H5P_DEFAULT, H5P_DEFAULT),
            "H5Acreate2", name),
      H5Aclose);
  check(H5Awrite(attribute.id(), H5T_NATIVE_INT64, values.begin()), "H5Awrite", name);
}

Index add(hdf5::LayoutFile& file, const Piece& piece, const Handle& properties) {
  hdf5::require_storable(piece.tensor, piece.global, piece.box);
  const std::string path = hdf5::dataset_path(piece.tensor, piece.box.begin);
  const Handle dataset = file.create_dataset(path, piece.dtype, piece.box.size, properties);
  write_attribute(dataset, "begin", piece.box.begin);
  write_attribute(dataset, "global", piece.global);
  const haddr_t offset = H5Dget_offset(dataset.id());
  if (offset == HADDR_UNDEF) hdf5::fail("H5Dget_offset", path);
  return static_cast<Index>(offset);
}

}  // namespace

FileLayout lay_out_shard(std::vector<Piece> pieces) {
  const hdf5::QuietErrors quiet;
  const Index metadata = metadata_bytes(pieces);
  hdf5::require_file_size(metadata + data_bytes(pieces));
  hdf5::LayoutFile file(metadata);
  {
    const Handle properties = contiguous();
    for (Piece& piece : pieces) piece.offset = add(file, piece, properties);
  }
  FileLayout layout = file.finish();
  layout.pieces = std::move(pieces);
  return layout;
}

std::string shard_name(int rank) { return fmt::format("shard-{:05}.h5", rank); }

}  // namespace trireme
