// Implements lay_out_global (file_layout.h).
// checkpoint.h5: virtual datasets that show global tensors out of the shards beside it.
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>

#include "trireme/core/error.h"

#include "runtime/store/hdf5/dataset.h"
#include "runtime/store/hdf5/layout.h"

namespace trireme {

namespace {

using hdf5::check;
using hdf5::Handle;

// Far more than HDF5 needs (measured: 100 bytes a part, 1500 a tensor with 8 parts).
Index metadata_bytes(const std::vector<GlobalTensor>& tensors) {
  Index bytes = Index{1} << 20;
  for (const GlobalTensor& tensor : tensors) {
    const auto name = static_cast<Index>(tensor.name.size());
    bytes += 8192 + 4 * name + static_cast<Index>(tensor.parts.size()) * (1024 + 2 * name);
  }
  return bytes;
}

// The bits that mean "missing", lowest byte first: see lay_out_global.
std::array<unsigned char, 8> missing_value(DType dtype) {
  const std::uint64_t bits = [dtype]() -> std::uint64_t {
    switch (dtype) {
      case DType::bf16:
        return 0x7fa5;
      case DType::f32:
        return 0x7fa5a5a5;
      case DType::f64:
        return 0x7ff5a5a5a5a5a5a5;
      case DType::i32:
        return std::uint64_t{1} << 31;
      case DType::i64:
        return std::uint64_t{1} << 63;
      case DType::u8:
        return 0xff;
    }
    return 0;
  }();
  std::array<unsigned char, 8> bytes;
  std::memcpy(bytes.data(), &bits, sizeof bits);
  return bytes;
}

// HDF5 expands '%' in the name of a source; '%%' is the character.
std::string escape_percent(const std::string& name) {
  std::string escaped;
  for (const char c : name) escaped.append(c == '%' ? 2 : 1, c);
  return escaped;
}

// Selects `box` in a space of the global shape. A scalar is selected as it is.
void select(const Handle& space, const Box& box, const std::string& subject) {
  const int dims = box.size.dims();
  if (dims == 0) return;
  std::array<hsize_t, Shape::max_dims> start{}, count{}, block{};
  std::copy(box.begin.begin(), box.begin.end(), start.begin());
  std::copy(box.size.begin(), box.size.end(), block.begin());
  count.fill(1);
  check(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(),
                            block.data()),
        "H5Sselect_hyperslab", subject);
}

void add(hdf5::LayoutFile& file, const GlobalTensor& tensor) {
  require(!tensor.parts.empty(), "tensor ", tensor.name, " has no parts to be shown");
  const Handle properties = hdf5::make_properties(H5P_DATASET_CREATE);
  const Handle type = hdf5::make_type(tensor.dtype), space = hdf5::make_space(tensor.global);
  const auto missing = missing_value(tensor.dtype);
  check(H5Pset_fill_value(properties.id(), type.id(), missing.data()), "H5Pset_fill_value",
        tensor.name);
  for (const GlobalTensor::Part& part : tensor.parts) {
    hdf5::require_storable(tensor.name, tensor.global, part.box);
    select(space, part.box, tensor.name);
    const Handle source = hdf5::make_space(part.box.size);
    const std::string dataset = hdf5::dataset_path(tensor.name, part.box.begin);
    check(H5Pset_virtual(properties.id(), space.id(), escape_percent(part.file).c_str(),
                         escape_percent(dataset).c_str(), source.id()),
          "H5Pset_virtual", tensor.name);
  }
  file.create_dataset(tensor.name, tensor.dtype, tensor.global, properties);
}

}  // namespace

FileLayout lay_out_global(const std::vector<GlobalTensor>& tensors) {
  const hdf5::QuietErrors quiet;
  hdf5::require_file_size(metadata_bytes(tensors));
  hdf5::LayoutFile file(metadata_bytes(tensors));
  for (const GlobalTensor& tensor : tensors) add(file, tensor);
  return file.finish();
}

}  // namespace trireme
