// Continues FlatParameters (trireme/optim/flat_parameters.h).
// FlatParameters as logical tensors: initial values, extents, and what counts in norms. Nothing
// here depends on the layout but which part of a logical tensor is visited; padding is visited by
// none.
#include <algorithm>

#include "trireme/core/random.h"
#include "trireme/optim/flat_parameters.h"

namespace trireme {

namespace {

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

/// Values of rows [begin, end) of `box` (all dims but the last folded), packed from `values` on.
void fill_rows(const ParameterPart& part, const Box& box, const Random& random, Index begin,
               Index end, float* values) {
  const Shape strides = part.global.packed_strides();
  const int last = box.size.dims() - 1;
  const Index columns = last < 0 ? 1 : box.size[last];
  for (Index row = begin; row < end; ++row) {
    Index i = last < 0 ? 0 : box.begin[last], rest = row;
    for (int d = last - 1; d >= 0; --d) {
      i += (box.begin[d] + rest % box.size[d]) * strides[d];
      rest /= box.size[d];
    }
    for (Index column = 0; column < columns; ++column)
      values[row * columns + column] = initial_value(part.init, random, i + column);
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

void FlatParameters::initialise(std::uint64_t seed, Stream& stream, ThreadPool& host) {
  require(parameter_data_ != nullptr || count_ == 0, "initialise() comes after bind()");
  stream.zero(parameter_data_, parameter_bytes());
  std::vector<float> values;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    for (const ParameterPart& part : declared_[i].parts) {
      const Random random = random_for(seed, part.name);
      for (const Packed& packed : packed_boxes(part, parameters_[i].range.begin)) {
        values.resize(static_cast<std::size_t>(packed.box.count()));
        host.parallel_for(packed.box.size.rows(), 1, [&](Index begin, Index end) {
          fill_rows(part, packed.box, random, begin, end, values.data());
        });
        stream.copy(parameter_data_ + packed.offset, values.data(),
                    static_cast<Index>(values.size()) * size_bytes(DType::f32));
        stream.synchronize();  // `values` is used again
      }
    }
  refresh_compute_copy(stream);
}

std::vector<FlatExtent> FlatParameters::extents(
    FlatBuffer buffer, FunctionRef<FlatRange(const FlatParameter&)> range_of) const {
  std::vector<FlatExtent> result;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Bucket& bucket = bucket_with(parameters_[i]);
    const Index shift =
        buffer == FlatBuffer::parameters ? 0 : bucket.state_begin - updated(bucket).begin;
    append_extents(declared_[i], parameters_[i], range_of(parameters_[i]), shift, result);
  }
  return result;
}

std::vector<FlatExtent> FlatParameters::parameter_extents() const {
  return extents(FlatBuffer::parameters, [](const FlatParameter& p) { return p.range; });
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

/// The slice of this data rank, cut into equal parts for its copies where that makes pieces worth writing.
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
