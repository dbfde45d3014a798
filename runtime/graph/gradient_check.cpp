// The subject of a check is traced with its differentiable inputs as parameters, run by an
// Executor, and compared with finite differences of its own forward, and with itself run in other
// ways. Everything happens on the device, through plans of all kinds.
#include "trireme/graph/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "trireme/core/bf16.h"

#include "runtime/core/at.h"
#include "runtime/core/text/exception_text.h"
#include "runtime/graph/gradient_check_run.h"

namespace trireme {

namespace {

using namespace graph;
using Rows = std::vector<std::vector<double>>;

/// Multiples of 2^-16 of the range, so that steps of finite differences are exact.
Contents fill(const Subject& subject) {
  Contents contents;
  for (std::size_t i = 0; i < subject.inputs.size(); ++i) {
    const CheckInput& input = subject.inputs[i];
    const Random random{77 + i};
    auto& values = contents.emplace_back(at(input.spec.shape.count()));
    for (std::size_t k = 0; k < values.size(); ++k) {
      const double x = input.low + (input.high - input.low) * random.uniform(static_cast<Index>(k));
      values[k] = is_floating(input.spec.dtype) ? std::round(x * 0x1p16) * 0x1p-16 : std::floor(x);
    }
  }
  return contents;
}

struct Distance {
  double relative = 0;  // in the 2-norm
  std::size_t element = 0;
};
Distance distance(const std::vector<double>& actual, const std::vector<double>& expected) {
  Distance out;
  double difference = 0, norm = 0, most = -1;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double d = actual[i] - expected[i];
    difference += d * d;
    norm += expected[i] * expected[i];
    const double size = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::fabs(d);
    if (size > most) {
      most = size;
      out.element = i;
    }
  }
  if (difference == 0) return {};
  out.relative = std::sqrt(difference / norm);
  if (!std::isfinite(out.relative)) out.relative = std::numeric_limits<double>::infinity();
  return out;
}

/// Throws when they differ by more than `tolerance`.
void require_near(const std::vector<double>& actual, const std::vector<double>& expected,
                  double tolerance, const std::string& what, const char* here, const char* there) {
  require(actual.size() == expected.size(), "gradient_check: ", what, " has ", actual.size(),
          " elements ", here, " and ", expected.size(), ' ', there);
  const Distance d = distance(actual, expected);
  require(d.relative <= tolerance, "gradient_check: ", what, " differs by ", d.relative,
          " (at most ", tolerance, "), most at element ", d.element, ": ", actual[d.element], ' ',
          here, ", ", expected[d.element], ' ', there);
}

/// Outputs and gradients of one way to run the subject on one rank.
struct Outcome {
  Rows outputs, gradients;
  std::vector<Shape> shapes;  // of the outputs
};
PlanOptions plain(PlanOptions::Mode mode) { return {.mode = mode, .share = false, .pack = false}; }
Outcome run_alone(const Subject& subject, DType compute, Device& device, const Contents& contents) {
  const auto mesh = make_self_mesh();
  const Traced traced(subject, {.compute = compute}, device);
  Outcome out;
  out.gradients = Runner(traced, {traced.loss}, plain(PlanOptions::Mode::training), device, *mesh)
                      .gradients(contents);
  out.outputs =
      Runner(traced, traced.outputs, plain(PlanOptions::Mode::forward_only), device, *mesh)
          .results(contents);
  for (const Value& output : traced.outputs) out.shapes.push_back(output.shape());
  return out;
}

/// Fourth order central differences, one element at a time.
std::vector<double> numeric_gradient(Runner& runner, Contents& contents, std::size_t input,
                                     double step) {
  std::vector<double> out;
  for (double& element : contents[input]) {
    const double original = element;
    const auto loss_at = [&](double distance) {
      element = original + distance * step;
      return runner.loss(contents);
    };
    out.push_back((8 * (loss_at(1) - loss_at(-1)) - (loss_at(2) - loss_at(-2))) / (12 * step));
    element = original;
  }
  return out;
}

/// An input that no op uses has no gradient to compare.
void require_used(const Subject& subject, const Rows& gradients) {
  for (std::size_t i = 0; i < subject.inputs.size(); ++i)
    require(!subject.wanted[i] || gradients[i].size() == at(subject.inputs[i].spec.shape.count()),
            "gradient_check: input ", i, " is used by no op: use it, or leave it out");
}

/// Infinite or NaN is a wrong formula; the comparisons that follow would name another cause.
void require_finite(const Contents& contents, const Rows& gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i)
    for (std::size_t k = 0; k < gradients[i].size(); ++k)
      require(std::isfinite(gradients[i][k]), "gradient_check: the gradient of input ", i, " is ",
              gradients[i][k], " at element ", k, ", where the input is ", contents[i][k],
              ": check backward, and that it writes every element");
}

/// Plans of all kinds must give the same bits, with NaN in dead memory.
void require_equal(const Subject& subject, Uses uses, Device& device, const Contents& contents,
                   const Rows& expected) {
  const auto mesh = make_self_mesh();
  for (const Rerun rerun : {Rerun::no, Rerun::yes})
    for (const bool share : {false, true})
      for (const auto backward : {PlanOptions::Backward::whole, PlanOptions::Backward::split}) {
        const Traced traced(subject, {.uses = uses, .rerun = rerun}, device);
        PlanOptions options;
        options.share = options.pack = share;
        options.poison = true;
        options.backward = backward;
        const Rows gradients =
            Runner(traced, {traced.loss}, options, device, *mesh).gradients(contents);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const auto differs =
              std::mismatch(expected[i].begin(), expected[i].end(), gradients[i].begin());
          require(differs.first == expected[i].end(), "gradient_check: the gradient of input ", i,
                  " is another one when the op is used ", uses == Uses::twice ? "twice" : "once",
                  rerun == Rerun::yes ? ", recomputed" : "",
                  share ? ", with shared and packed memory" : "",
                  backward == PlanOptions::Backward::split ? ", input and parameter gradients apart"
                                                           : "",
                  " (element ", differs.first - expected[i].begin(), ")",
                  ": check saved(), sharing(), accumulates() and that every result is written "
                  "whole");
        }
      }
}

/// Each gradient requested alone, as if the other inputs were data, must have the same bits.
void require_equal_alone(const Subject& subject, Device& device, const Contents& contents,
                         const Rows& expected) {
  if (std::count(subject.wanted.begin(), subject.wanted.end(), true) < 2) return;
  for (std::size_t i = 0; i < subject.wanted.size(); ++i) {
    if (!subject.wanted[i]) continue;
    Subject alone = subject;
    alone.wanted.assign(subject.wanted.size(), false);
    alone.wanted[i] = true;
    std::vector<double> gradient;
    try {
      gradient = run_alone(alone, DType::f32, device, contents).gradients[i];
    } catch (...) {
      throw Error(
          str("gradient_check: with the gradient of input ", i,
              " alone asked for, as where the others are data: ", current_exception_text()));
    }
    const auto differs = std::mismatch(expected[i].begin(), expected[i].end(), gradient.begin());
    const auto element = differs.first - expected[i].begin();
    require(differs.first == expected[i].end(), "gradient_check: the gradient of input ", i,
            " is another one when it alone is asked for (element ", element, ": ",
            differs.first == expected[i].end() ? 0 : *differs.second, ", not ",
            differs.first == expected[i].end() ? 0 : *differs.first, "): check wants()");
  }
}

/// bf16 must give nearly the same as f32 for the same, rounded inputs.
void require_bf16(const Subject& subject, Device& device, Contents contents) {
  for (std::size_t i = 0; i < contents.size(); ++i)
    if (subject.inputs[i].spec.dtype == DType::f32)
      for (double& x : contents[i])
        x = static_cast<double>(to_float(to_bf16(static_cast<float>(x))));
  const Outcome f32 = run_alone(subject, DType::f32, device, contents);
  const Outcome bf16 = run_alone(subject, DType::bf16, device, contents);
  for (std::size_t o = 0; o < f32.outputs.size(); ++o)
    require_near(bf16.outputs[o], f32.outputs[o], bf16_tolerance, str("output ", o), "in bf16",
                 "in f32");
  for (std::size_t i = 0; i < f32.gradients.size(); ++i)
    require_near(bf16.gradients[i], f32.gradients[i], bf16_tolerance,
                 str("the gradient of input ", i), "in bf16", "in f32");
}

/// What the ranks have of a tensor, put together: parts to their places, or terms added up.
class Gathered {
 public:
  explicit Gathered(Index count) : values_(at(count), 0) {}
  void put(const Part& part, const Shape& local, const std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values_[at(part.global_index(local, static_cast<Index>(i)))] = values[i];
  }
  void add(const std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) values_[i] += values[i];
  }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
};

/// Several tensor ranks must give what one rank gives.
void require_same_on_ranks(const Subject& subject, const GradientCheckOptions& options,
                           const Contents& contents, const Outcome& expected) {
  require(options.device != nullptr,
          "gradient_check: several tensor ranks need GradientCheckOptions::device, one each");
  std::mutex mutex;
  std::vector<Gathered> outputs, gradients;
  for (const Shape& shape : expected.shapes) outputs.emplace_back(shape.count());
  for (const CheckInput& input : subject.inputs) gradients.emplace_back(input.spec.shape.count());
  run_on_threads(MeshShape(1, 1, options.tensor_ranks), [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = options.device();
    const Traced traced(subject,
                        {.tensor_rank = mesh.coordinate(Role::tensor),
                         .tensor_size = mesh.shape().size(Role::tensor),
                         .outputs = expected.shapes},
                        *device);
    Runner training(traced, {traced.loss}, plain(PlanOptions::Mode::training), *device, mesh);
    const Rows mine = training.gradients(contents);
    const Rows results =
        Runner(traced, traced.outputs, plain(PlanOptions::Mode::forward_only), *device, mesh)
            .results(contents);
    const std::lock_guard lock(mutex);
    for (std::size_t o = 0; o < results.size(); ++o)
      outputs[o].put(traced.output_parts[o], traced.outputs[o].shape(), results[o]);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (mine[i].empty()) continue;
      const int p = traced.parameter_of_input[i];
      if (training.is_term(i) || subject.inputs[i].placement == Placement::partial_gradient)
        gradients[i].add(mine[i]);
      else
        gradients[i].put(traced.parts[i], traced.graph.parameters()[at(p)].spec.shape, mine[i]);
    }
  });
  const std::string here = str("on ", options.tensor_ranks, " tensor ranks");
  for (std::size_t o = 0; o < outputs.size(); ++o)
    require_near(outputs[o].values(), expected.outputs[o], tensor_axis_tolerance, str("output ", o),
                 here.c_str(), "on one");
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (subject.wanted[i])
      require_near(gradients[i].values(), expected.gradients[i], tensor_axis_tolerance,
                   str("the gradient of input ", i), here.c_str(), "on one");
}

/// Refuses ranges and parts that the check cannot work with.
void check_inputs(const Subject& subject, int tensor_ranks) {
  for (std::size_t i = 0; i < subject.inputs.size(); ++i) {
    const CheckInput& input = subject.inputs[i];
    require(!subject.wanted[i] || input.low < input.high, "gradient_check: the range of input ", i,
            " is [", input.low, ", ", input.high,
            "]: finite differences need a low that is below high");
    if (input.placement != Placement::sharded) continue;
    const Shape& shape = input.spec.shape;
    require(0 <= input.split_dim && input.split_dim < shape.dims(), "gradient_check: split_dim ",
            input.split_dim, " of input ", i, " is no dim of ", shape);
    require(shape[input.split_dim] % std::max(tensor_ranks, 1) == 0, "gradient_check: dim ",
            input.split_dim, " of input ", i, ", ", shape, ", does not divide by ", tensor_ranks,
            " tensor ranks");
  }
}

GradientError check(const Subject& subject, Device& device, const GradientCheckOptions& options) {
  check_inputs(subject, options.tensor_ranks);
  GradientError worst;
  const auto mesh = make_self_mesh();
  Contents contents = fill(subject);
  for (const Uses uses : {Uses::once, Uses::twice}) {
    const Traced traced(subject, {.uses = uses}, device);
    const Rows analytic =
        Runner(traced, {traced.loss}, plain(PlanOptions::Mode::training), device, *mesh)
            .gradients(contents);
    require_used(subject, analytic);
    require_finite(contents, analytic);
    require_equal(subject, uses, device, contents, analytic);
    if (uses == Uses::once) require_equal_alone(subject, device, contents, analytic);
    Runner forward(traced, {traced.loss}, plain(PlanOptions::Mode::forward_only), device, *mesh);
    for (std::size_t i = 0; i < subject.inputs.size(); ++i) {
      if (!subject.wanted[i]) continue;
      const CheckInput& input = subject.inputs[i];
      // A power of two near 1/64 of the range: x and its neighbours are exact in f32.
      const double step = std::exp2(std::round(std::log2((input.high - input.low) / 64)));
      const std::vector<double> numeric = numeric_gradient(forward, contents, i, step);
      const Distance d = distance(analytic[i], numeric);
      if (d.relative > worst.error)
        worst = {d.relative, static_cast<int>(i), static_cast<Index>(d.element),
                 analytic[i][d.element], numeric[d.element]};
    }
  }
  if (options.bf16) require_bf16(subject, device, contents);
  if (options.tensor_ranks > 1)
    require_same_on_ranks(subject, options, contents,
                          run_alone(subject, DType::f32, device, contents));
  return worst;
}

/// As where the op is traced, the error names the op and what it was given.
Outputs infer(const Op& op, const Specs& specs) {
  try {
    return op.infer(specs);
  } catch (...) {
    std::string given;
    for (const Spec& spec : specs) given += str(given.empty() ? "" : ", ", spec);
    throw Error(str("gradient_check: op '", op.name(), "': ", current_exception_text(),
                    " (inputs: ", given, ")"));
  }
}

/// An input whose extents may all be off by one, and nothing changes, is not checked by infer:
/// forward would read beyond its end.
void check_shapes(const Op& op, const std::vector<CheckInput>& inputs) {
  Specs specs;
  for (const CheckInput& input : inputs) specs.push_back(input.spec);
  if (specs.size() < 2) return;
  const Outputs usual = infer(op, specs);
  const auto unchanged = [&](const Specs& other) {
    try {
      const Outputs outputs = op.infer(other);
      return std::equal(
          usual.begin(), usual.end(), outputs.begin(), outputs.end(),
          [](const Output& a, const Output& b) { return a.spec().shape == b.spec().shape; });
    } catch (const std::exception&) {
      return false;
    }
  };
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Shape& shape = specs[i].shape;
    if (shape.count() < 2) continue;
    Spec last;
    bool ignored = true;
    for (int d = 0; d < shape.dims() && ignored; ++d) {
      Shape other = shape;
      ++other[d];
      Specs off = specs;
      off[i] = last = Spec(other, specs[i].dtype);
      ignored = unchanged(off);
    }
    require(!ignored, "gradient_check: infer of '", op.name(), "' accepted ", last, " as input ", i,
            " in place of ", specs[i],
            ", with the same output: it is the only place where shapes "
            "are checked, and forward would read what is not there");
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const GradientError& error) {
  out << error.error;
  if (error.input < 0) return out;
  return out << " (input " << error.input << ", element " << error.element << ": " << error.analytic
             << " in backward, " << error.numeric << " by finite differences)";
}

GradientError gradient_check(OpPtr op, const std::vector<CheckInput>& inputs, Device& device,
                             const GradientCheckOptions& options) {
  check_shapes(*op, inputs);
  Subject subject{
      [op](Graph& graph, const Values& values) { return graph.apply(op, values); }, inputs, {}};
  for (std::size_t i = 0; i < inputs.size(); ++i)
    subject.wanted.push_back(is_floating(inputs[i].spec.dtype) && inputs[i].differentiable &&
                             op->differentiable(static_cast<int>(i)));
  GradientCheckOptions all = options;
  all.bf16 |= op->works_in(DType::bf16);
  return check(subject, device, all);
}

GradientError gradient_check(const std::function<Value(Graph&, const Values&)>& build,
                             const std::vector<CheckInput>& inputs, Device& device,
                             const GradientCheckOptions& options) {
  Subject subject{
      [build](Graph& graph, const Values& values) { return Values{build(graph, values)}; },
      inputs,
      {}};
  for (const CheckInput& input : inputs)
    subject.wanted.push_back(is_floating(input.spec.dtype) && input.differentiable);
  return check(subject, device, options);
}

}  // namespace trireme
