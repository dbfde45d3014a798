// Continues FlatParameters (runtime/optim/flat_parameters.h). FlatParameters as logical tensors:
// initial values, extents, and what counts in norms. Only which part of a logical tensor is visited
// depends on the layout; padding is never visited.
#include <algorithm>

#include "trireme/core/random.h"

#include "runtime/optim/flat_parameters.h"

namespace trireme {

namespace {

constexpr Index most_drawn = Index{1} << 22;  // initial values at a time

/// A box that is packed in memory, at an element offset into the flat buffers.
struct Packed {
  Box box;
  Index offset;
};

/// The part's box as packed boxes: one, unless an inner dim is padded.
std::vector<Packed> packed_boxes(const ParameterPart& part, Index offset) {
  if (part.box.count() == 0) return {};
  int padded = 0;  // innermost padded dim; boxes are one element in the dims before it
  for (int d = 1; d < part.box.size.dims(); ++d)
    if (part.box.size[d] != part.local[d]) padded = d;
  Index boxes = 1;
  for (int d = 0; d < padded; ++d) boxes *= part.box.size[d];
  const Shape strides = part.local.packed_strides();
  std::vector<Packed> result;
  for (Index i = 0; i < boxes; ++i) {
    Packed packed{part.box, offset + part.offset};
    Index rest = i;
    for (int d = padded - 1; d >= 0; --d) {
      const Index index = rest % part.box.size[d];
      rest /= part.box.size[d];
      packed.box.begin[d] += index;
      packed.box.size[d] = 1;
      packed.offset += index * strides[d];
    }
    result.push_back(packed);
  }
  return result;
}

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

/// Calls f(packed box) for the elements of `part` inside `range`, in order.
template <class F>
void for_each_inside(const ParameterPart& part, Index offset, FlatRange range, F&& f) {
  for (const Packed& packed : packed_boxes(part, offset)) {
    const Index begin = std::max(range.begin, packed.offset) - packed.offset;
    const Index end = std::min(range.end(), packed.offset + packed.box.count()) - packed.offset;
    if (begin >= end) continue;
    Index at = packed.offset + begin;
    for (const Box& box : boxes_of_flat_range(packed.box, begin, end)) {
      f(Packed{box, at});
      at += box.count();
    }
  }
}

/// `shift`: what is added to flat offsets.
void append_extents(const Parameter& declared, const FlatParameter& parameter, FlatRange range,
                    Index shift, std::vector<FlatExtent>& out) {
  for (const ParameterPart& part : declared.parts) {
    FlatExtent flat{{part.name, DType::f32, part.global, {}}, {}, parameter.owned};
    for_each_inside(part, parameter.range.begin, range, [&](const Packed& packed) {
      flat.extent.boxes.push_back(packed.box);
      flat.offsets.push_back(packed.offset + shift);
    });
    if (!flat.extent.boxes.empty()) out.push_back(std::move(flat));
  }
}

}  // namespace

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

void FlatParameters::initialise(std::uint64_t seed, Stream& stream, ThreadPool& host) {
  require(master_data_ != nullptr || count_ == 0, "initialise() comes after bind()");
  stream.zero(master_data_, parameter_bytes());
  Drawn drawn;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    for (const ParameterPart& part : declared_[i].parts) {
      const Random random = random_for(seed, part.name);
      for (const Packed& packed : packed_boxes(part, parameters_[i].range.begin)) {
        const Index rows = packed.box.size.rows(), columns = columns_of(packed.box);
        const Index step = std::max<Index>(1, most_drawn / std::max<Index>(1, columns));
        for (Index row = 0; row < rows; row += step) {
          drawn.resize(std::min(step, rows - row) * columns);
          host.parallel_for(std::min(step, rows - row), 1, [&](Index begin, Index end) {
            float* values = drawn.values.data() + begin * columns;
            fill_rows(part, packed.box, random, row + begin, row + end, values);
            std::transform(values, values + (end - begin) * columns,
                           drawn.rounded.data() + begin * columns, to_bf16);
          });
          store(bucket_with(parameters_[i]), packed.offset + row * columns, drawn, stream);
          stream.synchronize();  // `drawn` is used again
        }
      }
    }
}

/// Values of [begin, begin + their count), which lie in `bucket`: all to the compute copy, and to
/// the masters those that this rank has.
void FlatParameters::store(const Bucket& bucket, Index begin, const Drawn& drawn,
                           Stream& stream) const {
  const auto end = begin + static_cast<Index>(drawn.values.size());
  const FlatRange mine = updated(bucket);
  const Index from = masters_are_slices() ? std::max(begin, mine.begin) : begin;
  const Index to = masters_are_slices() ? std::min(end, mine.end()) : end;
  if (from < to)
    stream.copy(master_data_ + from + shift_of(FlatBuffer::masters, bucket),
                drawn.values.data() + (from - begin), (to - from) * size_bytes(DType::f32));
  if (compute_data_ != nullptr)
    stream.copy(compute_data_ + begin, drawn.rounded.data(),
                (end - begin) * size_bytes(DType::bf16));
}

Index FlatParameters::shift_of(FlatBuffer buffer, const Bucket& bucket) const {
  switch (buffer) {
    case FlatBuffer::computed:
      return 0;
    case FlatBuffer::masters:
      return master_begin(bucket) - updated(bucket).begin;
    case FlatBuffer::state:
      return bucket.state_begin - updated(bucket).begin;
  }
  return 0;
}

std::vector<FlatExtent> FlatParameters::extents(
    FlatBuffer buffer, FunctionRef<FlatRange(const FlatParameter&)> range_of) const {
  std::vector<FlatExtent> result;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Bucket& bucket = bucket_with(parameters_[i]);
    append_extents(declared_[i], parameters_[i], range_of(parameters_[i]), shift_of(buffer, bucket),
                   result);
  }
  return result;
}

std::vector<FlatExtent> FlatParameters::parameter_extents() const {
  return extents(FlatBuffer::computed, [](const FlatParameter& p) { return p.range; });
}

std::vector<FlatExtent> FlatParameters::master_extents() const {
  return extents(FlatBuffer::masters, [&](const FlatParameter& p) {
    return masters_are_slices() ? updated(bucket_with(p)) : p.range;
  });
}

std::vector<FlatExtent> FlatParameters::state_extents() const {
  return extents(FlatBuffer::state,
                 [&](const FlatParameter& p) { return updated(bucket_with(p)); });
}

std::vector<FlatExtent> FlatParameters::slice_extents(FlatBuffer buffer) const {
  return extents(buffer, [&](const FlatParameter& p) { return bucket_with(p).slice; });
}

std::vector<FlatExtent> FlatParameters::written_extents(FlatBuffer buffer) const {
  return extents(buffer, [&](const FlatParameter& p) { return written(p); });
}

/// The slice of this data rank, cut into equal parts for its copies where that makes pieces worth
/// writing.
FlatRange FlatParameters::written(const FlatParameter& parameter) const {
  constexpr Index worth_cutting = (Index{64} << 10) / 4;  // elements
  const FlatRange slice = bucket_with(parameter).slice;
  const Index begin = std::max(slice.begin, parameter.range.begin);
  const Index count = std::min(slice.end(), parameter.range.end()) - begin;
  if (count <= 0) return {};
  if (count < worth_cutting) return parameter.owned ? FlatRange{begin, count} : FlatRange{};
  const auto cut = [&](Index copy) { return count * copy / parameter.copies; };
  return {begin + cut(parameter.copy), cut(parameter.copy + 1) - cut(parameter.copy)};
}

std::vector<FlatRange> FlatParameters::norm_ranges() const {
  std::vector<FlatRange> result;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].owned) continue;
    const Bucket& bucket = bucket_with(parameters_[i]);
    for (const ParameterPart& part : declared_[i].parts)
      for_each_inside(part, parameters_[i].range.begin, bucket.slice, [&](const Packed& packed) {
        if (!result.empty() && result.back().end() == packed.offset)
          result.back().count += packed.box.count();
        else
          result.push_back({packed.offset, packed.box.count()});
      });
  }
  return result;
}

}  // namespace trireme
