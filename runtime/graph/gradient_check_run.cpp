#include "runtime/graph/gradient_check_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/core/at.h"
#include "runtime/core/visit_dtype.h"
#include "runtime/graph/constants.h"

namespace trireme::graph {

namespace {

/// A value placed as asked on the tensor axis.
class Activation final : public Op {
 public:
  explicit Activation(Placement placement) : placement_(placement) {}
  std::string name() const override { return "activation"; }
  bool works_in(DType) const override { return true; }
  bool works_on(DeviceKind) const override { return true; }
  Outputs infer(const Specs& in) const override { return {in[0]}; }
  Placement placement(const Placements&, const std::vector<bool>&) const override {
    return placement_;
  }
  bool completes_gradient(int, Placement) const override { return true; }
  void forward(Exec& e) const override { e.stream().copy(e.output(0), e.input(0)); }
  void backward(Exec& e) const override { e.stream().copy(e.grad_input(0), e.grad_output(0)); }

 private:
  Placement placement_;
};

template <class T>
T from_double(double x) {
  return static_cast<T>(x);
}
template <>
Bf16 from_double<Bf16>(double x) {
  return to_bf16(static_cast<float>(x));
}

std::vector<double> download(Stream& stream, const Tensor& x) {
  std::vector<double> out(at(x.count()));
  visit(x.dtype, [&](auto zero) {
    std::vector<decltype(zero)> values(out.size());
    stream.copy(values.data(), x.data, x.bytes());
    stream.synchronize();
    std::transform(values.begin(), values.end(), out.begin(),
                   [](auto each) { return to_double(each); });
  });
  return out;
}
std::vector<std::byte> bytes_of(DType dtype, const std::vector<double>& values) {
  std::vector<std::byte> out(values.size() * at(size_bytes(dtype)));
  visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T value = from_double<T>(values[i]);
      std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return out;
}

/// A random linear function of all inputs, in fp64: the sum over inputs k and elements i of
/// w(k, i) x(k, i). A rank has its part of the weights, and of a partial_gradient value its share
/// of them.
class RandomSum final : public Op {
 public:
  RandomSum(std::vector<Part> parts, std::vector<double> shares)
      : parts_(std::move(parts)), shares_(std::move(shares)) {}
  std::string name() const override { return "random_sum"; }
  bool works_in(DType) const override { return true; }
  bool works_on(DeviceKind) const override { return true; }
  Outputs infer(const Specs&) const override { return {Spec(Shape{}, DType::f64)}; }
  Placement placement(const Placements&, const std::vector<bool>&) const override {
    return Placement::replicated;
  }

  void forward(Exec& e) const override {
    double sum = 0;
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const Tensor& x = e.input(static_cast<int>(k));
      const std::vector<double> values = download(e.stream(), x);
      for (std::size_t i = 0; i < values.size(); ++i) sum += weight(k, x.shape, i) * values[i];
    }
    e.stream().copy(e.output(0).data, &sum, sizeof sum);
    e.stream().synchronize();
  }
  void backward(Exec& e) const override {
    double seed = 0;
    e.stream().copy(&seed, e.grad_output(0).data, sizeof seed);
    e.stream().synchronize();
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      if (!e.wants(static_cast<int>(k))) continue;
      const Tensor& to = e.grad_input(static_cast<int>(k));
      std::vector<double> weights(at(to.count()));
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = seed * weight(k, to.shape, i);
      const std::vector<std::byte> bytes = bytes_of(to.dtype, weights);
      e.stream().copy(to.data, bytes.data(), to.bytes());
      e.stream().synchronize();
    }
  }

 private:
  /// Multiples of 1/64, which bf16 holds exactly.
  double weight(std::size_t k, const Shape& local, std::size_t i) const {
    const Index global = parts_[k].global_index(local, static_cast<Index>(i));
    const double uniform = static_cast<double>(Random{1234 + k}.uniform(global));
    return shares_[k] * std::round(128 * uniform - 64) / 64;
  }
  std::vector<Part> parts_;
  std::vector<double> shares_;
};

/// Rank r of n has so much of the gradient of a partial_gradient value; powers of two, exact in
/// bf16.
double share_of(int rank, int size) {
  return rank + 1 == size ? 1 / std::exp2(rank) : 1 / std::exp2(rank + 1);
}

Shape local_shape(const CheckInput& input, int size) {
  Shape shape = input.spec.shape;
  if (input.placement == Placement::sharded) shape[input.split_dim] /= size;
  return shape;
}

/// What a rank has of an output that is `local` here and `global` on one rank.
Part part_of_output(const Value& output, const Shape& global, int rank) {
  Part part{global};
  const Shape& local = output.shape();
  require(local.dims() == global.dims(), "gradient_check: an output is ", local, ", but ", global,
          " on one tensor rank");
  for (int d = 0; d < local.dims(); ++d)
    if (local[d] != global[d]) {
      part.dim = d;
      part.first = rank * local[d];
    }
  return part;
}

}  // namespace

Index Part::global_index(const Shape& local, Index i) const {
  if (dim < 0) return i;
  Index inner = 1;
  for (int d = dim + 1; d < local.dims(); ++d) inner *= local[d];
  const Index along = local[dim], outer = i / (along * inner);
  return (outer * global[dim] + first) * inner + i % (along * inner);
}

Traced::Traced(const Subject& subject, const Way& way, Device& device)
    : graph(way.tensor_rank, way.tensor_size, way.compute) {
  graph.plan_for(device.traits());
  const bool on_axis =
      std::any_of(subject.inputs.begin(), subject.inputs.end(), [](const CheckInput& input) {
        return !input.parameter && input.placement != Placement::replicated;
      });
  Values values;
  for (std::size_t i = 0; i < subject.inputs.size(); ++i) {
    const CheckInput& input = subject.inputs[i];
    require(input.spec.packed(), "gradient_check: input ", i, " has to be packed, not ",
            input.spec);
    const bool sharded = input.placement == Placement::sharded;
    const Shape local = local_shape(input, way.tensor_size);
    parts.push_back({input.spec.shape, sharded ? input.split_dim : -1,
                     sharded ? way.tensor_rank * local[input.split_dim] : 0});
    if (subject.wanted[i]) {
      require(input.spec.dtype == DType::f32, "gradient_check: input ", i, " has to be f32, not ",
              input.spec.dtype, "; an op that works in bf16 is checked in it as well");
      parameter_of_input.push_back(static_cast<int>(graph.parameters().size()));
      const Value p = graph.parameter(str("input", i), input.spec.shape,
                                      sharded ? shard(input.split_dim) : replicated(), zeros());
      values.push_back(input.parameter ? p : p.apply<Activation>(input.placement));
      continue;
    }
    parameter_of_input.push_back(-1);
    const Value x = graph.input(str("input", i), Spec(local, input.spec.dtype));
    const bool enters = input.parameter && input.placement == Placement::replicated && on_axis;
    const Placement placement = enters ? Placement::partial_gradient : input.placement;
    values.push_back(placement == Placement::replicated ? x : x.apply<Activation>(placement));
  }
  const auto trace = [&] { return subject.build(graph, values); };
  outputs = way.rerun == Rerun::yes ? graph.recompute(trace) : trace();
  Values all = outputs;
  if (way.uses == Uses::twice) {
    const Values again = way.rerun == Rerun::yes ? graph.recompute(trace) : trace();
    all.insert(all.end(), again.begin(), again.end());
  }
  const auto own = static_cast<std::ptrdiff_t>(graph.parameters().size());
  const auto given = std::count(subject.wanted.begin(), subject.wanted.end(), true);
  require(own == given, "gradient_check: the subgraph declares the parameter '",
          own == given ? "" : graph.parameters().back().name(),
          "'; parameters to be checked have to be inputs (CheckInput::parameter)");
  std::vector<double> shares;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const std::size_t o = k % outputs.size();
    const Shape& global = way.outputs.empty() ? all[k].shape() : way.outputs[o];
    output_parts.push_back(part_of_output(all[k], global, way.tensor_rank));
    shares.push_back(all[k].placement() == Placement::partial_gradient
                         ? share_of(way.tensor_rank, way.tensor_size)
                         : 1);
  }
  loss = apply<RandomSum>(all, output_parts, shares);
}

Runner::Runner(const Traced& traced, const Values& results, const PlanOptions& options,
               Device& device, Mesh& mesh)
    : traced_(traced),
      plan_(traced.graph, results, cut_stages(traced.graph, results, 1), 0, options),
      stream_(device.make_stream()),
      slot_(device.allocate(plan_.bytes().slot)),
      scratch_(device.allocate(plan_.bytes().scratch)),
      constants_(device.allocate(constant_bytes(traced.graph))),
      scalars_(*stream_) {
  write_constants(traced.graph, constants_.data(), *stream_);
  ExecutorMemory memory{slot_.data(), plan_.bytes().slot, scratch_.data(), {},
                        {},           constants_.data(),  scalars_.data()};
  for (const int p : plan_.parameters()) {
    const Spec& spec = traced.graph.parameters()[at(p)].spec;
    buffers_.push_back(device.allocate(spec.bytes()));
    memory.parameters.emplace_back(buffers_.back().data(), spec.shape, spec.dtype);
    if (options.mode == PlanOptions::Mode::forward_only) continue;
    buffers_.push_back(device.allocate(Spec(spec.shape).bytes()));
    memory.gradients.emplace_back(buffers_.back().data(), spec.shape);
  }
  memory_ = memory;
  executor_ = std::make_unique<Executor>(plan_, memory, *stream_, mesh, hooks_);
}
Runner::~Runner() = default;

std::vector<Tensor> Runner::upload(const Contents& contents) {
  const auto part_of = [&](std::size_t input, const Shape& local, DType dtype) {
    std::vector<double> values(at(local.count()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] =
          contents[input][at(traced_.parts[input].global_index(local, static_cast<Index>(i)))];
    return bytes_of(dtype, values);
  };
  data_.clear();
  std::vector<Tensor> data;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (traced_.parameter_of_input[i] < 0) {
      const Spec& spec = traced_.graph.values()[at(traced_.graph.inputs()[data.size()])].spec;
      data_.push_back(part_of(i, spec.shape, spec.dtype));
      data.emplace_back(data_.back().data(), spec.shape, spec.dtype);
      continue;
    }
    const std::optional<std::size_t> position = position_of(i);
    if (!position) continue;
    const Tensor& to = memory_.parameters[*position];
    const std::vector<std::byte> bytes = part_of(i, to.shape, to.dtype);
    stream_->copy(to.data, bytes.data(), to.bytes());
    stream_->synchronize();
  }
  return data;
}

double Runner::loss(const Contents& contents) {
  const std::vector<Tensor> inputs = upload(contents);
  executor_->forward(0, {.last = true, .inputs = inputs});
  return download(*stream_, executor_->result(0))[0];
}

std::vector<std::vector<double>> Runner::results(const Contents& contents) {
  const std::vector<Tensor> inputs = upload(contents);
  executor_->forward(0, {.last = true, .inputs = inputs});
  std::vector<std::vector<double>> out;
  for (std::size_t i = 0; i < traced_.outputs.size(); ++i)
    out.push_back(download(*stream_, executor_->result(0, static_cast<int>(i))));
  return out;
}

std::vector<std::vector<double>> Runner::gradients(const Contents& contents) {
  const std::vector<Tensor> inputs = upload(contents);
  for (const Tensor& gradient : memory_.gradients) stream_->zero(gradient.data, gradient.bytes());
  executor_->forward(0, {.last = true, .inputs = inputs});
  executor_->backward(0, {.last = true, .inputs = inputs});
  std::vector<std::vector<double>> out(contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const std::optional<std::size_t> position = position_of(i);
    if (position) out[i] = download(*stream_, memory_.gradients[*position]);
  }
  return out;
}

bool Runner::is_term(std::size_t input) const {
  const std::optional<std::size_t> position = position_of(input);
  return position && plan_.sums_over_tensor()[*position];
}

std::optional<std::size_t> Runner::position_of(std::size_t input) const {
  const auto& order = plan_.parameters();
  const auto found = std::find(order.begin(), order.end(), traced_.parameter_of_input[input]);
  if (found == order.end()) return {};
  return at(found - order.begin());
}

}  // namespace trireme::graph
