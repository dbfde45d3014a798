// The subject of a check is traced with its differentiable inputs as parameters, run by an Executor, and compared with
// finite differences of its own forward. Everything happens on the device, through plans of all kinds.
#include "trireme/graph/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "trireme/comm/mesh.h"

#include "runtime/graph/executor.h"

namespace trireme {

namespace {

using Build = std::function<Values(Graph&, const Values&)>;

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// A parameter as an activation, placed as asked.
class Activation final : public Op {
 public:
  explicit Activation(Place place) : place_(place) {}
  std::string name() const override { return "activation"; }
  bool works_on(DeviceKind) const override { return true; }
  Outputs infer(const Specs& in) const override { return {in[0]}; }
  Place place(const Places&, const std::vector<bool>&) const override { return place_; }
  bool completes_gradient(int, Place) const override { return true; }
  void forward(Exec& e) const override { e.stream().copy(e.output(0), e.input(0)); }
  void backward(Exec& e) const override { e.stream().copy(e.grad_input(0), e.grad_output(0)); }

 private:
  Place place_;
};

/// Random linear function of all inputs, in fp64: sum over inputs k and elements i of w(k, i) x(k, i).
class RandomSum final : public Op {
 public:
  explicit RandomSum(Specs specs) : specs_(std::move(specs)) {}
  std::string name() const override { return "random_sum"; }
  bool works_on(DeviceKind) const override { return true; }
  Outputs infer(const Specs&) const override { return {Spec(Shape{}, DType::f64)}; }
  Place place(const Places&, const std::vector<bool>&) const override { return Place::whole; }

  void forward(Exec& e) const override {
    double sum = 0;
    for (std::size_t k = 0; k < specs_.size(); ++k) {
      const Tensor& x = e.input(static_cast<int>(k));
      if (x.dtype == DType::f64) sum += weighted<double>(e, x, k);
      if (x.dtype == DType::f32) sum += weighted<float>(e, x, k);
    }
    e.stream().copy(e.output(0).data, &sum, sizeof sum);
    e.stream().synchronize();
  }
  void backward(Exec& e) const override {
    double seed = 0;
    e.stream().copy(&seed, e.grad_output(0).data, sizeof seed);
    e.stream().synchronize();
    for (std::size_t k = 0; k < specs_.size(); ++k) {
      if (!e.wants(static_cast<int>(k))) continue;
      const Tensor& to = e.grad_input(static_cast<int>(k));
      to.dtype == DType::f64 ? scaled_weights<double>(e, to, k, seed)
                             : scaled_weights<float>(e, to, k, seed);
    }
  }

 private:
  static float weight(std::size_t k, std::size_t i) {
    return 2 * Random{1234 + k}.uniform(static_cast<Index>(i)) - 1;
  }
  template <class T>
  static double weighted(Exec& e, const Tensor& x, std::size_t k) {
    std::vector<T> values(at(x.count()));
    e.stream().copy(values.data(), x.data, x.bytes());
    e.stream().synchronize();
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      sum += static_cast<double>(weight(k, i)) * static_cast<double>(values[i]);
    return sum;
  }
  template <class T>
  static void scaled_weights(Exec& e, const Tensor& to, std::size_t k, double seed) {
    std::vector<T> dx(at(to.count()));
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = static_cast<T>(seed * weight(k, i));
    e.stream().copy(to.data, dx.data(), to.bytes());
    e.stream().synchronize();
  }
  Specs specs_;
};

enum class Uses { once, twice };
enum class Rerun { no, yes };

/// The subject traced in one way. Inputs that are differentiable are parameters of the graph, in order.
struct Traced {
  Graph graph;
  Value loss;
  std::vector<int> parameter_of_input;  // -1: data

  Traced(const Build& build, const std::vector<CheckInput>& inputs,
         const std::vector<bool>& differentiable, Uses uses, Rerun rerun) {
    Values values;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const CheckInput& input = inputs[i];
      require(input.spec.packed(), "gradient_check: input ", i, " has to be packed, not ",
              input.spec);
      if (!differentiable[i]) {
        parameter_of_input.push_back(-1);
        values.push_back(graph.input(str("input", i), input.spec));
        continue;
      }
      require(input.spec.dtype == DType::f32, "gradient_check: input ", i, " has to be f32, not ",
              input.spec.dtype);
      const bool split = input.parameter && input.place == Place::split;
      parameter_of_input.push_back(static_cast<int>(graph.parameters().size()));
      const Value p = graph.parameter(str("input", i), input.spec.shape,
                                      split ? shard(0) : replicated(), zeros());
      values.push_back(input.parameter ? p : p.apply<Activation>(input.place));
    }
    const auto subject = [&] { return build(graph, values); };
    Values outputs = rerun == Rerun::yes ? graph.recompute(subject) : subject();
    if (uses == Uses::twice) {
      const Values again = rerun == Rerun::yes ? graph.recompute(subject) : subject();
      outputs.insert(outputs.end(), again.begin(), again.end());
    }
    const auto own = static_cast<std::ptrdiff_t>(graph.parameters().size());
    const auto given = std::count_if(parameter_of_input.begin(), parameter_of_input.end(),
                                     [](int parameter) { return parameter >= 0; });
    require(own == given, "gradient_check: the subgraph declares the parameter '",
            own == given ? "" : graph.parameters().back().name(),
            "'; parameters to be checked have to be inputs (CheckInput::parameter)");
    Specs specs;
    for (const Value& output : outputs) {
      require(output.spec().dtype != DType::bf16, "gradient_check takes f32 and f64 results, not ",
              output.spec());
      specs.push_back(output.spec());
    }
    loss = graph.apply(std::make_shared<RandomSum>(specs), outputs).front();
  }
};

/// Contents of the inputs; multiples of 2^-16 of the range, so that steps of finite differences are exact.
struct Contents {
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<std::byte>> data;
};

Contents fill(const std::vector<CheckInput>& inputs, const std::vector<int>& parameter_of_input) {
  Contents contents;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const CheckInput& input = inputs[i];
    const Random random{77 + i};
    const Index count = input.spec.shape.count();
    if (parameter_of_input[i] >= 0) {
      auto& values = contents.floats.emplace_back(at(count));
      for (Index k = 0; k < count; ++k) {
        const double x = input.low + (input.high - input.low) * random.uniform(k);
        values[at(k)] = static_cast<float>(std::round(x * 0x1p16) * 0x1p-16);
      }
      continue;
    }
    auto& bytes = contents.data.emplace_back(at(input.spec.bytes()));
    for (Index k = 0; k < count; ++k) {
      const double x = input.low + (input.high - input.low) * random.uniform(k);
      const auto put = [&](auto value) {
        std::memcpy(bytes.data() + k * static_cast<Index>(sizeof value), &value, sizeof value);
      };
      switch (input.spec.dtype) {
        case DType::f32:
          put(static_cast<float>(x));
          break;
        case DType::f64:
          put(x);
          break;
        case DType::i32:
          put(static_cast<std::int32_t>(std::floor(x)));
          break;
        case DType::i64:
          put(static_cast<std::int64_t>(std::floor(x)));
          break;
        case DType::u8:
          put(static_cast<std::uint8_t>(std::floor(x)));
          break;
        case DType::bf16:
          throw Error("gradient_check: bf16 data is not supported");
      }
    }
  }
  return contents;
}

/// One plan with its memory, ready to run on contents.
class Runner {
 public:
  Runner(const Traced& traced, PlanOptions options, Device& device)
      : traced_(traced),
        mesh_(make_self_mesh()),
        plan_(traced.graph, {traced.loss}, cut_stages(traced.graph, {traced.loss}, 1), 0, options),
        stream_(device.make_stream()),
        slot_(device.allocate(plan_.bytes().slot)),
        scratch_(device.allocate(plan_.bytes().scratch)) {
    ExecutorMemory memory{slot_.data(), plan_.bytes().slot, scratch_.data(), {}, {}};
    for (const int p : plan_.parameters()) {
      const Spec& spec = traced.graph.parameters()[at(p)].spec;
      buffers_.push_back(device.allocate(spec.bytes()));
      memory.parameters.emplace_back(buffers_.back().data(), spec.shape);
      if (options.mode == PlanOptions::Mode::forward_only) continue;
      buffers_.push_back(device.allocate(spec.bytes()));
      memory.gradients.emplace_back(buffers_.back().data(), spec.shape);
    }
    memory_ = memory;
    executor_ =
        std::make_unique<Executor>(plan_, memory, *stream_, mesh_->axis(Axis::tensor), hooks_);
  }

  double loss(const Contents& contents) {
    upload(contents);
    const std::vector<Tensor> inputs = tensors_of(contents);
    executor_->forward(0, {.last = true, .inputs = inputs});
    double loss = 0;
    stream_->copy(&loss, executor_->result(0).data, sizeof loss);
    stream_->synchronize();
    return loss;
  }

  /// Per graph parameter.
  std::vector<std::vector<float>> gradients(const Contents& contents) {
    loss(contents);
    std::vector<std::vector<float>> out(traced_.graph.parameters().size());
    for (const Tensor& gradient : memory_.gradients) stream_->zero(gradient.data, gradient.bytes());
    const std::vector<Tensor> inputs = tensors_of(contents);
    executor_->backward(0, {.last = true, .inputs = inputs});
    for (std::size_t i = 0; i < memory_.gradients.size(); ++i) {
      const Tensor& gradient = memory_.gradients[i];
      auto& values = out[at(plan_.parameters()[i])];
      values.resize(at(gradient.count()));
      stream_->copy(values.data(), gradient.data, gradient.bytes());
    }
    stream_->synchronize();
    return out;
  }

 private:
  void upload(const Contents& contents) {
    for (std::size_t i = 0; i < memory_.parameters.size(); ++i) {
      const Tensor& to = memory_.parameters[i];
      stream_->copy(to.data, contents.floats[at(plan_.parameters()[i])].data(), to.bytes());
    }
    stream_->synchronize();
  }
  std::vector<Tensor> tensors_of(const Contents& contents) const {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < contents.data.size(); ++i) {
      const Spec& spec = traced_.graph.values()[at(traced_.graph.inputs()[i])].spec;
      tensors.emplace_back(const_cast<std::byte*>(contents.data[i].data()), spec.shape, spec.dtype);
    }
    return tensors;
  }

  const Traced& traced_;
  std::unique_ptr<Mesh> mesh_;
  Plan plan_;
  std::unique_ptr<Stream> stream_;
  Buffer slot_, scratch_;
  std::vector<Buffer> buffers_;
  ExecutorMemory memory_;
  ExecutorHooks hooks_;
  std::unique_ptr<Executor> executor_;
};

/// Fourth order central differences, one element at a time.
std::vector<float> numeric_gradient(Runner& runner, Contents& contents, int parameter,
                                    double step) {
  std::vector<float>& x = contents.floats[at(parameter)];
  std::vector<float> out;
  for (float& element : x) {
    const float original = element;
    const auto loss_at = [&](double distance) {
      element = static_cast<float>(original + distance * step);
      return runner.loss(contents);
    };
    const double slope =
        (8 * (loss_at(1) - loss_at(-1)) - (loss_at(2) - loss_at(-2))) / (12 * step);
    element = original;
    out.push_back(static_cast<float>(slope));
  }
  return out;
}

double relative_error(const std::vector<float>& analytic, const std::vector<float>& numeric) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < numeric.size(); ++i) {
    const double d = static_cast<double>(analytic[i]) - numeric[i];
    difference += d * d;
    norm += static_cast<double>(numeric[i]) * numeric[i];
  }
  if (difference == 0) return 0;
  const double error = std::sqrt(difference / norm);
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

/// Plans of all kinds have to give the same bits, with NaN in dead memory.
void require_equal(const Build& build, const std::vector<CheckInput>& inputs,
                   const std::vector<bool>& differentiable, Uses uses, Device& device,
                   const Contents& contents, const std::vector<std::vector<float>>& expected) {
  for (const Rerun rerun : {Rerun::no, Rerun::yes})
    for (const bool share : {false, true})
      for (const auto backward : {PlanOptions::Backward::whole, PlanOptions::Backward::split}) {
        const Traced traced(build, inputs, differentiable, uses, rerun);
        PlanOptions options;
        options.share = options.pack = share;
        options.poison = true;
        options.backward = backward;
        const auto gradients = Runner(traced, options, device).gradients(contents);
        const auto same_bits = [](const std::vector<float>& a, const std::vector<float>& b) {
          return a.size() == b.size() &&
                 std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
        };
        for (std::size_t p = 0; p < expected.size(); ++p)
          require(
              same_bits(gradients[p], expected[p]), "gradient_check: the gradient of ",
              traced.graph.parameters()[p].name(), " is another one when the op is used ",
              uses == Uses::twice ? "twice" : "once", rerun == Rerun::yes ? ", recomputed" : "",
              share ? ", with shared and packed memory" : "",
              backward == PlanOptions::Backward::split ? ", input and parameter gradients apart"
                                                       : "",
              ": check saved(), sharing(), accumulates() and that every result is written whole");
      }
}

double check(const Build& build, const std::vector<CheckInput>& inputs,
             const std::vector<bool>& differentiable, Device& device) {
  double worst = 0;
  for (const Uses uses : {Uses::once, Uses::twice}) {
    const Traced traced(build, inputs, differentiable, uses, Rerun::no);
    Contents contents = fill(inputs, traced.parameter_of_input);
    PlanOptions plain;
    plain.share = plain.pack = false;
    const auto analytic = Runner(traced, plain, device).gradients(contents);
    require_equal(build, inputs, differentiable, uses, device, contents, analytic);
    PlanOptions forward_only;
    forward_only.mode = PlanOptions::Mode::forward_only;
    Runner forward(traced, forward_only, device);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const int p = traced.parameter_of_input[i];
      if (p < 0) continue;
      // A power of two near 1/64 of the range: x and its neighbours are exact in f32.
      const double step = std::exp2(std::round(std::log2((inputs[i].high - inputs[i].low) / 64)));
      worst = std::max(
          worst, relative_error(analytic[at(p)], numeric_gradient(forward, contents, p, step)));
    }
  }
  return worst;
}

}  // namespace

double gradient_check(OpPtr op, const std::vector<CheckInput>& inputs, Device& device) {
  std::vector<bool> differentiable;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    differentiable.push_back(is_floating(inputs[i].spec.dtype) &&
                             op->differentiable(static_cast<int>(i)));
  return check([&](Graph& graph, const Values& values) { return graph.apply(op, values); }, inputs,
               differentiable, device);
}

double gradient_check(const std::function<Value(Graph&, const Values&)>& build,
                      const std::vector<CheckInput>& inputs, Device& device) {
  std::vector<bool> differentiable;
  for (const CheckInput& input : inputs)
    differentiable.push_back(is_floating(input.spec.dtype) && input.differentiable);
  return check([&](Graph& graph, const Values& values) { return Values{build(graph, values)}; },
               inputs, differentiable, device);
}

}  // namespace trireme
