// Implements structure_problem (file_layout.h).
// Whether a shard is, for HDF5, what the manifest says: a comparison that finds files of another
// layout under good checksums.
#include <array>
#include <set>
#include <span>

#include "trireme/core/error.h"

#include "runtime/store/file_layout.h"
#include "runtime/store/hdf5/dataset.h"

namespace trireme {

namespace {

using hdf5::check;
using hdf5::Handle;

Handle open_object(hid_t in, const std::string& path) {
  return Handle(check(H5Oopen(in, path.c_str(), H5P_DEFAULT), "H5Oopen", path), H5Oclose);
}

Shape shape_of(const Handle& space, const std::string& path) {
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  const int dims = check(H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr),
                         "H5Sget_simple_extent_dims", path);
  require(dims <= Shape::max_dims, "dataset ", path, " has ", dims, " dims");
  Shape shape;
  for (int d = 0; d < dims; ++d) shape.push_back(static_cast<Index>(extents[d]));
  return shape;
}

// Numbers of a one-dimensional attribute.
Shape read_attribute(const Handle& dataset, const char* name, const std::string& path) {
  const std::string subject = str(name, " of ", path);
  const Handle attribute(check(H5Aopen(dataset.id(), name, H5P_DEFAULT), "H5Aopen", subject),
                         H5Aclose);
  const Handle space(check(H5Aget_space(attribute.id()), "H5Aget_space", subject), H5Sclose);
  const Shape extent = shape_of(space, subject);
  require(extent.dims() == 1 && extent[0] <= Shape::max_dims, subject, " has shape ", extent);
  std::array<Index, Shape::max_dims> values{};
  check(H5Aread(attribute.id(), H5T_NATIVE_INT64, values.data()), "H5Aread", subject);
  return Shape(std::span<const Index>(values.data(), static_cast<std::size_t>(extent[0])));
}

bool is_virtual(const Handle& dataset, const std::string& path) {
  const Handle properties(check(H5Dget_create_plist(dataset.id()), "H5Dget_create_plist", path),
                          H5Pclose);
  return check(H5Pget_layout(properties.id()), "H5Pget_layout", path) == H5D_VIRTUAL;
}

std::string link_name(hid_t group, hsize_t index, const std::string& of) {
  const auto get = [&](char* text, std::size_t bytes) {
    return check(
        H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, index, text, bytes, H5P_DEFAULT),
        "H5Lget_name_by_idx", of);
  };
  std::string name(static_cast<std::size_t>(get(nullptr, 0)), '\0');
  get(name.data(), name.size() + 1);
  return name;
}

// Datasets below `group` that have bytes in this file. Virtual ones have none.
void find_datasets(const Handle& group, const std::string& prefix, std::set<std::string>& found) {
  H5G_info_t info;
  check(H5Gget_info(group.id(), &info), "H5Gget_info", prefix);
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const std::string path = prefix + link_name(group.id(), i, prefix);
    const Handle object = open_object(group.id(), path.substr(prefix.size()));
    const H5I_type_t kind = H5Iget_type(object.id());
    if (kind == H5I_GROUP) find_datasets(object, path + "/", found);
    if (kind == H5I_DATASET && !is_virtual(object, path)) found.insert(path);
  }
}

// Throws: Error that says what differs.
void compare(const Handle& file, const std::string& path, const Piece& piece) {
  const Handle dataset(check(H5Dopen2(file.id(), path.c_str(), H5P_DEFAULT), "H5Dopen2", path),
                       H5Dclose);
  const Handle type(check(H5Dget_type(dataset.id()), "H5Dget_type", path), H5Tclose);
  require(check(H5Tequal(type.id(), hdf5::make_type(piece.dtype).id()), "H5Tequal", path) > 0,
          "dataset ", path, " is not of type ", piece.dtype);
  const Handle space(check(H5Dget_space(dataset.id()), "H5Dget_space", path), H5Sclose);
  const Shape shape = shape_of(space, path);
  require(shape == piece.box.size, "dataset ", path, " has shape ", shape, " instead of ",
          piece.box.size);
  const haddr_t at = H5Dget_offset(dataset.id());
  require(at != HADDR_UNDEF && static_cast<Index>(at) == piece.offset, "dataset ", path,
          " lies at ", static_cast<Index>(at), " instead of ", piece.offset);
  const auto compare_attribute = [&](const char* name, const Shape& expected) {
    const Shape value = read_attribute(dataset, name, path);
    require(value == expected, "attribute ", name, " of ", path, " is ", value, " instead of ",
            expected);
  };
  compare_attribute("begin", piece.box.begin);
  compare_attribute("global", piece.global);
}

void compare_file(const std::string& path, const std::vector<Piece>& pieces) {
  const Handle access = hdf5::make_file_access();
  const Handle file(check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), "H5Fopen", path),
                    H5Fclose);
  std::set<std::string> extra;
  find_datasets(open_object(file.id(), "/"), "", extra);
  for (const Piece& piece : pieces) {
    const std::string dataset = hdf5::dataset_path(piece.tensor, piece.box.begin);
    require(extra.erase(dataset) == 1, "dataset ", dataset, " is missing");
    compare(file, dataset, piece);
  }
  require(extra.empty(), "dataset ", extra.empty() ? "" : *extra.begin(), " is unknown");
}

}  // namespace

std::string structure_problem(const std::string& path, const std::vector<Piece>& pieces) {
  try {
    const hdf5::QuietErrors quiet;
    compare_file(path, pieces);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace trireme
