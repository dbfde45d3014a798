#include "runtime/optim/flat_parameters.h"

#include <algorithm>

#include "trireme/core/random.h"

#include "runtime/core/at.h"
#include "runtime/optim/packed_boxes.h"

namespace trireme {

using namespace optim;

namespace {

constexpr Index most_drawn = Index{1} << 22;  // initial values at a time

float initial_value(const Init& init, const Random& random, Index i) {
  switch (init.kind) {
    case Init::Kind::zeros:
      return 0;
    case Init::Kind::ones:
      return 1;
    case Init::Kind::normal:
      return init.scale * random.normal(i);
    case Init::Kind::uniform:
      return init.scale * (2 * random.uniform(i) - 1);
  }
  return 0;
}

/// Rows of a box: all dims but the last folded.
Index columns_of(const Box& box) {
  const int last = box.size.dims() - 1;
  return last < 0 ? 1 : box.size[last];
}

/// Rows of a box, as above, that lie before row `first` of dim 0 of its tensor.
Index rows_before(const Box& box, Index first) {
  if (box.size.dims() == 0) return first > 0 ? 1 : 0;
  const Index before = std::clamp<Index>(first - box.begin[0], 0, box.size[0]);
  if (box.size.dims() == 1) return before == box.size[0] ? 1 : 0;
  return before * (box.size.rows() / box.size[0]);
}

/// Values of rows [begin, end) of `box`, packed from `values` on.
void fill_rows(const ParameterPart& part, const Box& box, const Random& random, Index begin,
               Index end, float* values) {
  const Shape strides = part.global.packed_strides();
  const int last = box.size.dims() - 1;
  const Index columns = columns_of(box);
  for (Index row = begin; row < end; ++row) {
    Index i = last < 0 ? 0 : box.begin[last], rest = row;
    for (int d = last - 1; d >= 0; --d) {
      i += (box.begin[d] + rest % box.size[d]) * strides[d];
      rest /= box.size[d];
    }
    for (Index column = 0; column < columns; ++column)
      *values++ = initial_value(part.init, random, i + column);
  }
}

}  // namespace

FlatParameters::FlatParameters(const FlatLayout& layout, std::byte* parameters,
                               std::byte* gradients)
    : FlatLayout(layout),
      master_data_(reinterpret_cast<float*>(parameters)),
      gradient_data_(reinterpret_cast<float*>(gradients)),
      compute_data_(compute_bytes() == 0 ? nullptr
                                         : reinterpret_cast<Bf16*>(parameters + master_bytes())) {
  const auto check = [](const std::byte* data, Index bytes) {
    require((data != nullptr || bytes == 0) && reinterpret_cast<std::uintptr_t>(data) % 64 == 0,
            "flat buffers must be given, and aligned to 64 bytes");
  };
  check(parameters, parameter_bytes());
  check(gradients, gradient_bytes());
}

std::byte* FlatParameters::kept_data(DType type) const {
  return type == DType::f32 ? reinterpret_cast<std::byte*>(master_data())
                            : reinterpret_cast<std::byte*>(compute_data_);
}

void FlatParameters::refresh_compute_copy(Stream& stream) const {
  if (compute_data_ == nullptr) return;
  for (const Bucket& bucket : buckets()) {
    const FlatRange mine = updated(bucket);
    if (mine.count == 0) continue;
    stream.copy(Tensor(compute_data_ + mine.begin, {mine.count}, DType::bf16),
                Tensor(master_data_ + master_begin(bucket), {mine.count}));
  }
}

Elements FlatParameters::computed(FlatRange range) const {
  if (compute_data_ != nullptr) return {compute_data_ + range.begin, range.count, DType::bf16};
  return {master_data_ + range.begin, range.count, DType::f32};
}

std::vector<Tensor> FlatParameters::tensors(const Plan& plan, void* data, DType dtype) const {
  std::vector<Tensor> result;
  for (const int i : positions(plan)) {
    const Index first = parameters()[at(i)].range.begin * size_bytes(dtype);
    result.emplace_back(static_cast<std::byte*>(data) + first, declared(i).spec.shape, dtype);
  }
  return result;
}

std::vector<Tensor> FlatParameters::parameter_tensors(const Plan& plan) const {
  if (compute_data_ != nullptr) return tensors(plan, compute_data_, DType::bf16);
  return tensors(plan, master_data_, DType::f32);
}

std::vector<Tensor> FlatParameters::gradient_tensors(const Plan& plan) const {
  std::vector<Tensor> all = tensors(plan, gradient_data_, DType::f32);
  const std::vector<int> places = positions(plan);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (declared(places[i]).frozen()) all[i].data = nullptr;
  return all;
}

/// Initial values on the host, before they go to the device: so many at a time that the host needs
/// little memory for them.
struct FlatParameters::Drawn {
  std::vector<float> values;
  std::vector<Bf16> rounded;
  void resize(Index count) {
    values.resize(static_cast<std::size_t>(count));
    rounded.resize(static_cast<std::size_t>(count));
  }
};

void FlatParameters::clear(Stream& stream) { stream.zero(master_data_, parameter_bytes()); }

void FlatParameters::initialise(std::uint64_t seed, Stream& stream, ThreadPool& host,
                                const std::function<Index(const std::string&)>& from_row) {
  Drawn drawn;
  for (std::size_t i = 0; i < parameters().size(); ++i)
    for (const ParameterPart& part : declared(static_cast<int>(i)).parts) {
      const Random random = random_for(seed, part.name);
      for (const Packed& packed : packed_boxes(part, parameters()[i].range.begin)) {
        const Index rows = packed.box.size.rows(), columns = columns_of(packed.box);
        const Index step = std::max<Index>(1, most_drawn / std::max<Index>(1, columns));
        const Index first = from_row ? rows_before(packed.box, from_row(part.name)) : 0;
        for (Index row = first; row < rows; row += step) {
          drawn.resize(std::min(step, rows - row) * columns);
          host.parallel_for(std::min(step, rows - row), 1, [&](Index begin, Index end) {
            float* values = drawn.values.data() + begin * columns;
            fill_rows(part, packed.box, random, row + begin, row + end, values);
            std::transform(values, values + (end - begin) * columns,
                           drawn.rounded.data() + begin * columns, to_bf16);
          });
          store(bucket_with(parameters()[i]), packed.offset + row * columns, drawn, stream);
          stream.synchronize();  // `drawn` is used again
        }
      }
    }
}

/// Values of [begin, begin + their count), which lie in `bucket`: all to the compute copy, and to
/// the masters those that this rank has.
void FlatParameters::store(const Bucket& bucket, Index begin, const Drawn& drawn, Stream& stream) {
  const auto end = begin + static_cast<Index>(drawn.values.size());
  const bool all_here = !has_copy() || (!bucket.frozen && !masters_are_slices());
  const FlatRange mine = all_here ? FlatRange{begin, end - begin} : updated(bucket);
  const Index from = std::max(begin, mine.begin), to = std::min(end, mine.end());
  if (from < to)
    stream.copy(master_data_ + from + shift_of(FlatBuffer::masters, bucket),
                drawn.values.data() + (from - begin), (to - from) * size_bytes(DType::f32));
  if (compute_data_ != nullptr)
    stream.copy(compute_data_ + begin, drawn.rounded.data(),
                (end - begin) * size_bytes(DType::bf16));
}

}  // namespace trireme
