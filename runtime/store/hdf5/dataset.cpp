// Names, types and shapes of datasets.
#include "runtime/store/hdf5/dataset.h"

#include <algorithm>
#include <array>
#include <bit>

#include "trireme/core/error.h"

namespace trireme::hdf5 {

static_assert(std::endian::native == std::endian::little, "files are little-endian, as memory is");

namespace {

// HDF5 would read "a//b" and "a/./b" as "a/b", and "/a" as "a".
bool is_plain_path(const std::string& path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part.empty() || part == ".") return false;
    begin = end + 1;
  }
  return path.find('\0') == std::string::npos;
}

bool lies_in(const Box& box, const Shape& global) {
  if (box.begin.dims() != global.dims() || box.size.dims() != global.dims()) return false;
  for (int d = 0; d < global.dims(); ++d)
    if (box.begin[d] < 0 || box.size[d] < 1 || box.size[d] > global[d] - box.begin[d]) return false;
  return true;
}

// https://en.wikipedia.org/wiki/Bfloat16_floating-point_format: the upper half of an IEEE float.
Handle make_bf16() {
  const char* subject = "the type bf16";
  Handle type(check(H5Tcopy(H5T_IEEE_F32LE), "H5Tcopy", subject), H5Tclose);
  check(H5Tset_fields(type.id(), 15, 7, 8, 0, 7), "H5Tset_fields", subject);
  check(H5Tset_precision(type.id(), 16), "H5Tset_precision", subject);
  check(H5Tset_size(type.id(), 2), "H5Tset_size", subject);
  check(H5Tset_ebias(type.id(), 127), "H5Tset_ebias", subject);
  return type;
}

hid_t standard_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return H5T_IEEE_F32LE;
    case DType::f64:
      return H5T_IEEE_F64LE;
    case DType::i32:
      return H5T_STD_I32LE;
    case DType::i64:
      return H5T_STD_I64LE;
    case DType::u8:
      return H5T_STD_U8LE;
    case DType::bf16:
      break;  // has none
  }
  throw Error(str("HDF5 has no standard type for ", dtype));
}

}  // namespace

std::string dataset_path(const std::string& tensor, const Shape& begin) {
  if (begin.dims() == 0) return tensor + "/0";
  std::string path = tensor;
  for (int d = 0; d < begin.dims(); ++d) {
    path += d == 0 ? '/' : '_';
    path += std::to_string(begin[d]);
  }
  return path;
}

void require_storable(const std::string& tensor, const Shape& global, const Box& box) {
  require(is_plain_path(tensor), "\"", tensor,
          "\" cannot name a tensor in a checkpoint: write names joined by single '/'");
  require(lies_in(box, global), "tensor ", tensor, " of shape ", global, " has no box of size ",
          box.size, " at ", box.begin, "; boxes are not empty and lie inside their tensor");
}

Handle make_type(DType dtype) {
  if (dtype == DType::bf16) return make_bf16();
  return Handle(check(H5Tcopy(standard_type(dtype)), "H5Tcopy", name(dtype)), H5Tclose);
}

Handle make_space(const Shape& shape) {
  const char* subject = "a shape";
  if (shape.dims() == 0)
    return Handle(check(H5Screate(H5S_SCALAR), "H5Screate", subject), H5Sclose);
  std::array<hsize_t, Shape::max_dims> extents{};
  std::copy(shape.begin(), shape.end(), extents.begin());
  return Handle(
      check(H5Screate_simple(shape.dims(), extents.data(), nullptr), "H5Screate_simple", subject),
      H5Sclose);
}

Handle make_file_access() {
  const char* subject = "file access";
  Handle access(check(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate", subject), H5Pclose);
  check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V110, H5F_LIBVER_LATEST),
        "H5Pset_libver_bounds", subject);
  check(H5Pset_fclose_degree(access.id(), H5F_CLOSE_SEMI), "H5Pset_fclose_degree", subject);
  check(H5Pset_file_locking(access.id(), false, true), "H5Pset_file_locking", subject);
  return access;
}

}  // namespace trireme::hdf5
