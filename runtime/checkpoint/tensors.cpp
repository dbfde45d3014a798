#include "runtime/checkpoint/tensors.h"

#include <map>

#include "runtime/checkpoint/messages.h"

namespace trireme::checkpoint {
namespace {

/// f(name, dtype, global shape, box, memory, owned) for each box of `extents`. `data_of`(dtype):
/// where tensors of that type lie, or null.
template <class DataOf, class F>
void for_each_box(const std::string& prefix, const std::vector<FlatExtent>& extents,
                  DataOf&& data_of, F&& f) {
  for (const FlatExtent& flat : extents)
    for (std::size_t i = 0; i < flat.extent.boxes.size(); ++i) {
      std::byte* data = data_of(flat.extent.dtype);
      f(prefix + flat.extent.name, flat.extent.dtype, flat.extent.global, flat.extent.boxes[i],
        data == nullptr ? nullptr : data + flat.offsets[i] * size_bytes(flat.extent.dtype),
        flat.owned);
    }
}

auto kept_by(const FlatParameters& flat) {
  return [&flat](DType type) { return flat.kept_data(type); };
}
auto all_in(float* data) {
  return [data](DType) { return reinterpret_cast<std::byte*>(data); };
}

std::string state_prefix(const std::string& name) { return optimizer_prefix + name + "/"; }

/// f(name, value) for each scalar.
template <class Scalars, class F>
void for_each_scalar(Scalars& scalars, F&& f) {
  f("step", &scalars.progress.step);
  f("samples", &scalars.progress.samples);
  f("updates", &scalars.progress.updates);
  f("skipped", &scalars.progress.skipped);
  f("seed", &scalars.seed);
}

template <class DataOf>
void add_extents(std::vector<Piece>& pieces, const std::string& prefix,
                 const std::vector<FlatExtent>& extents, DataOf&& data_of) {
  for_each_box(prefix, extents, data_of,
               [&](const std::string& name, DType dtype, const Shape& global, const Box& box,
                   const void* memory, bool /*owned*/) {
                 pieces.push_back({name, dtype, global, box, memory, MemoryOf::device});
               });
}

void add_scalars(std::vector<Piece>& pieces, const SavedScalars& scalars) {
  for_each_scalar(scalars, [&](const char* name, const Index* value) {
    pieces.push_back(
        {str(scalars_prefix, name), DType::i64, Shape{}, Box{}, value, MemoryOf::host});
  });
}

/// `extents`(buffer): what of each tensor.
template <class Extents>
std::vector<Piece> pieces_of(const FlatParameters& flat, const Optimizer* optimizer,
                             const SavedScalars* scalars, Extents&& extents) {
  std::vector<Piece> pieces;
  if (scalars != nullptr) add_scalars(pieces, *scalars);
  add_extents(pieces, parameters_prefix, extents(FlatBuffer::masters), kept_by(flat));
  if (optimizer == nullptr) return pieces;
  for (const Optimizer::StateTensor& tensor : optimizer->state_tensors())
    add_extents(pieces, state_prefix(tensor.name), extents(FlatBuffer::state), all_in(tensor.data));
  return pieces;
}

/// The same before their memory exists.
template <class Extents>
std::vector<Piece> planned(const OptimizerOptions& optimizer, bool scalars, Extents&& extents) {
  std::vector<Piece> pieces;
  const SavedScalars none;
  if (scalars) add_scalars(pieces, none);
  add_extents(pieces, parameters_prefix, extents(FlatBuffer::masters), all_in(nullptr));
  for (const std::string& name : Optimizer::state_names(optimizer))
    add_extents(pieces, state_prefix(name), extents(FlatBuffer::state), all_in(nullptr));
  return pieces;
}

/// Those that are kept in type `kept`; they are read as f32.
template <class DataOf>
std::vector<Wanted> wanted(const std::string& prefix, const std::vector<FlatExtent>& extents,
                           DataOf&& data_of, DType kept) {
  std::vector<Wanted> all;
  for_each_box(prefix, extents, data_of,
               [&](const std::string& name, DType dtype, const Shape& global, const Box& box,
                   void* memory, bool owned) {
                 if (dtype == kept) all.push_back({name, DType::f32, global, box, memory, owned});
               });
  return all;
}

}  // namespace

std::vector<Piece> saved_pieces(const FlatParameters& flat, const Optimizer* optimizer,
                                const SavedScalars* scalars) {
  return pieces_of(flat, optimizer, scalars,
                   [&](FlatBuffer buffer) { return flat.written_extents(buffer); });
}

std::vector<Piece> planned_pieces(const FlatLayout& flat, const OptimizerOptions& optimizer,
                                  bool scalars) {
  return planned(optimizer, scalars,
                 [&](FlatBuffer buffer) { return flat.written_extents(buffer); });
}

std::vector<Piece> snapshot_pieces(const FlatParameters& flat, const Optimizer& optimizer,
                                   const SavedScalars& scalars) {
  return pieces_of(flat, &optimizer, &scalars,
                   [&](FlatBuffer buffer) { return flat.slice_extents(buffer); });
}

std::vector<Piece> planned_snapshot_pieces(const FlatLayout& flat,
                                           const OptimizerOptions& optimizer) {
  return planned(optimizer, true, [&](FlatBuffer buffer) { return flat.slice_extents(buffer); });
}

std::vector<Wanted> wanted_parameters(const FlatParameters& flat, DType kept) {
  return wanted(parameters_prefix, flat.slice_extents(FlatBuffer::masters), kept_by(flat), kept);
}

std::vector<Wanted> wanted_state(const FlatParameters& flat, const Optimizer& optimizer) {
  std::vector<Wanted> all;
  for (const Optimizer::StateTensor& tensor : optimizer.state_tensors())
    for (Wanted& box : wanted(state_prefix(tensor.name), flat.slice_extents(FlatBuffer::state),
                              all_in(tensor.data), DType::f32))
      all.push_back(std::move(box));
  return all;
}

void gather_parameters(const FlatParameters& flat, Communicator& data, Stream& stream) {
  if (flat.masters_are_slices()) flat.refresh_compute_copy(stream);
  for (const Bucket& bucket : flat.all_buckets()) {
    const auto master = [&](FlatRange range) {
      return Elements{flat.master_data() + range.begin, range.count, DType::f32};
    };
    if (flat.masters_are_slices() || bucket.frozen)
      data.all_gather(flat.computed(bucket.slice), flat.computed(bucket.range), stream,
                      {bucket.slices});
    else
      data.all_gather(master(bucket.slice), master(bucket.range), stream, {bucket.slices});
  }
  if (!flat.masters_are_slices()) flat.refresh_compute_copy(stream);
}

void gather_state(const FlatParameters& flat, const Optimizer& optimizer, Communicator& data,
                  Stream& stream) {
  if (flat.options().update == Update::sharded) return;  // each rank keeps its slice alone
  for (const Optimizer::StateTensor& tensor : optimizer.state_tensors())
    for (const Bucket& bucket : flat.buckets()) {
      float* whole = tensor.data + bucket.state_begin;
      data.all_gather(
          {whole + bucket.slice.begin - bucket.range.begin, bucket.slice.count, DType::f32},
          {whole, bucket.range.count, DType::f32}, stream, {bucket.slices});
    }
}

std::vector<Wanted> wanted_scalars(SavedScalars& scalars) {
  std::vector<Wanted> all;
  for_each_scalar(scalars, [&](const char* name, Index* value) {
    all.push_back({str(scalars_prefix, name), DType::i64, Shape{}, Box{}, value});
  });
  return all;
}

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
