#include "runtime/checkpoint/catalog.h"

#include <map>

#include "runtime/checkpoint/messages.h"

namespace trireme::checkpoint {
namespace {

void put_shape(Packer& out, const Shape& shape) {
  for (const Index extent : shape) out.put(extent);
}

Shape take_shape(Unpacker& in, Index dims) {
  Shape shape;
  for (Index d = 0; d < dims; ++d) shape.push_back(in.number());
  return shape;
}

/// The pieces of one tensor follow each other and share its head.
std::string pack(const FileLayout& file) {
  Packer out;
  out.put(file.bytes);
  const std::vector<Piece>& pieces = file.pieces;
  for (std::size_t i = 0; i < pieces.size();) {
    std::size_t end = i;
    while (end < pieces.size() && pieces[end].tensor == pieces[i].tensor) ++end;
    out.put(pieces[i].tensor);
    out.put(static_cast<Index>(pieces[i].dtype));
    out.put(pieces[i].global.dims());
    put_shape(out, pieces[i].global);
    out.put(static_cast<Index>(end - i));
    for (; i < end; ++i) {
      put_shape(out, pieces[i].box.begin);
      put_shape(out, pieces[i].box.size);
      out.put(pieces[i].offset);
    }
  }
  return out.bytes();
}

/// Adds what one rank has packed.
void unpack(const std::string& bytes, int rank, Manifest& catalog,
            std::map<std::string, Manifest::Tensor>& tensors) {
  Unpacker in(bytes);
  catalog.files.push_back({shard_name(rank), in.number(), {}});
  while (!in.at_end()) {
    const std::string name = in.text();
    const auto dtype = static_cast<DType>(in.number());
    const Index dims = in.number();
    const Shape global = take_shape(in, dims);
    Manifest::Tensor& tensor = tensors[name];
    require(tensor.pieces.empty() || (tensor.dtype == dtype && tensor.global == global), "rank ",
            rank, " has tensor ", name, " as ", dtype, " ", global, ", ranks before it as ",
            tensor.dtype, " ", tensor.global);
    tensor.name = name;
    tensor.dtype = dtype;
    tensor.global = global;
    for (Index count = in.number(); count > 0; --count) {
      Manifest::Stored stored;
      stored.file = rank;
      stored.box.begin = take_shape(in, dims);
      stored.box.size = take_shape(in, dims);
      stored.offset = in.number();
      tensor.pieces.push_back(stored);
    }
  }
}

}  // namespace

Manifest gather_catalog(const Host& host, const FileLayout& file) {
  const std::vector<std::string> all = gather_on_root(host, pack(file));
  Manifest catalog;
  std::map<std::string, Manifest::Tensor> tensors;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    unpack(all[rank], static_cast<int>(rank), catalog, tensors);
  for (auto& [name, tensor] : tensors) catalog.tensors.push_back(std::move(tensor));
  return catalog;
}

std::vector<GlobalTensor> global_tensors(const Manifest& catalog) {
  std::vector<GlobalTensor> all;
  for (const Manifest::Tensor& tensor : catalog.tensors) {
    GlobalTensor& global =
        all.emplace_back(GlobalTensor{tensor.name, tensor.dtype, tensor.global, {}});
    for (const Manifest::Stored& stored : tensor.pieces)
      global.parts.push_back(
          {catalog.files[static_cast<std::size_t>(stored.file)].name, stored.box});
  }
  return all;
}

}  // namespace trireme::checkpoint
