// A model that has every kind of parameter (whole, split, padded, packed, summed over the tensor
// axis, tied), and gradients for it in closed form: small integers, so that sums are exact and the
// same on every layout.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "trireme/comm/mesh.h"
#include "trireme/kernels/device.h"

#include "runtime/optim/flat_parameters.h"
#include "tests/optim/layouts.h"

namespace trireme::testing {

/// Takes x and any parameters, gives something like x, placed as `out`. Only traced and planned,
/// never run.
class Mix final : public Op {
 public:
  explicit Mix(Placement out) : out_(out) {}
  std::string name() const override { return "mix"; }
  bool works_in(DType) const override { return true; }
  Outputs infer(const Specs& in) const override { return {in[0]}; }
  void forward(Exec&) const override {}
  void backward(Exec&) const override {}
  Placement placement(const Placements&, const std::vector<bool>&) const override { return out_; }

 private:
  Placement out_;
};

/// To a scalar.
class Total final : public Op {
 public:
  std::string name() const override { return "total"; }
  bool works_in(DType) const override { return true; }
  Outputs infer(const Specs&) const override { return {Spec(Shape{}, DType::f64)}; }
  void forward(Exec&) const override {}
  void backward(Exec&) const override {}
};

constexpr Index tiny_vocabulary = 7, tiny_width = 8;

inline Value tiny_model(Graph& g, int blocks) {
  const auto mix = [&](Placement placement, Values in) {
    return g.apply(std::make_shared<Mix>(placement), in).front();
  };
  const auto table = [&] {
    return g.parameter("table", {tiny_vocabulary, tiny_width}, shard_padded(0), normal(0.5f));
  };
  Value x = g.input("x", {2, tiny_width});
  x = mix(Placement::replicated, {x, table()});
  for (int i = 0; i < blocks; ++i)
    x = g.block("block", i, [&] {
      Value norm = g.parameter("norm", {tiny_width}, replicated(), ones());
      Value h = mix(Placement::partial_gradient, {mix(Placement::replicated, {x, norm})});
      Value qkv = g.parameters({{"query", {8, tiny_width}, shard(0), normal(0.1f)},
                                {"key", {4, tiny_width}, shard(0), normal(0.1f)},
                                {"value", {4, tiny_width}, shard(0), uniform(0.1f)}});
      Value head_norm = g.parameter("head_norm", {5}, replicated(), ones());
      h = mix(Placement::sharded, {h, qkv, head_norm});
      Value out = g.parameter("out", {tiny_width, 8}, shard(1), normal(0.1f));
      Value padded = g.parameter("padded", {3, 5}, shard_padded(1), uniform(0.3f));
      h = mix(Placement::replicated, {h, out, padded});
      Value bias = g.parameter("bias", {tiny_width}, replicated(), zeros());
      return mix(Placement::replicated, {h, bias});
    });
  x = mix(Placement::replicated, {x, table()});
  return g.apply(std::make_shared<Total>(), {x}).front();
}

struct TinyOptions {
  int blocks = 4;
  int chunks = 1;
  Index bucket_bytes = 600;
  Update update = Update::replicated;
  Value (*model)(Graph&, int blocks) = tiny_model;
  DType compute = DType::f32;
  std::set<std::string> frozen = {};  // parameters, by their first names
  std::vector<Index> shares = {};     // of data ranks in the optimizer
};

/// One rank's graph, plans, the layout of its parameters, and the parameters.
class TinyRank {
 public:
  TinyRank(const MeshShape& shape, int rank, const TinyOptions& options)
      : graph(shape.coordinate(rank, Axis::tensor), shape.size(Axis::tensor), options.compute),
        loss(options.model(graph, options.blocks)),
        cut(cut_stages(graph, {loss}, options.chunks * shape.size(Axis::pipeline))) {
    for (const Parameter& parameter : graph.parameters())
      if (options.frozen.count(parameter.name()) > 0)
        graph.assign(parameter.id, {.trained = false});
    const int pipeline = shape.size(Axis::pipeline);
    for (int c = 0; c < options.chunks; ++c)
      plans.push_back(std::make_unique<Plan>(
          graph, Values{loss}, cut, c * pipeline + shape.coordinate(rank, Axis::pipeline)));
    std::vector<const Plan*> chunks;
    for (const auto& plan : plans) chunks.push_back(plan.get());
    layout = std::make_unique<FlatLayout>(
        graph, cut, chunks,
        FlatOptions{options.bucket_bytes, shape.coordinate(rank, Axis::data),
                    shape.size(Axis::data), options.update, options.compute, options.shares});
  }
  /// Binds private memory; tests of reduction take mesh memory.
  void bind(Device& device) {
    parameters = device.allocate(layout->parameter_bytes());
    gradients = device.allocate(layout->gradient_bytes());
    flat = std::make_unique<FlatParameters>(*layout, parameters.data(), gradients.data());
  }
  void bind(Mesh& mesh) {
    parameters = mesh.allocate(layout->parameter_bytes());
    gradients = mesh.allocate(layout->gradient_bytes());
    flat = std::make_unique<FlatParameters>(*layout, parameters.data(), gradients.data());
  }

  Graph graph;
  Value loss;
  StageCut cut;
  std::vector<std::unique_ptr<Plan>> plans;
  std::unique_ptr<FlatLayout> layout;
  std::unique_ptr<FlatParameters> flat;  // after bind()
  Buffer parameters, gradients;
};

/// f(index in the row-major logical tensor, offset into the flat buffer) for every element.
template <class F>
void for_each_element(const FlatExtent& flat, F&& f) {
  const Shape strides = flat.extent.global.packed_strides();
  for (std::size_t b = 0; b < flat.extent.boxes.size(); ++b) {
    const Box& box = flat.extent.boxes[b];
    for (Index i = 0; i < box.count(); ++i) {
      Index index = 0, rest = i;
      for (int d = box.size.dims() - 1; d >= 0; --d) {
        index += (box.begin[d] + rest % box.size[d]) * strides[d];
        rest /= box.size[d];
      }
      f(index, flat.offsets[b] + i);
    }
  }
}

// The gradient of a logical element is a sum over 4 samples (spread over the data axis), 4 terms
// (spread over the tensor axis for head norms, else complete on each rank) and, for the tied table,
// two uses (first and last stage).
constexpr int samples = 4, terms = 4;

inline double contribution(const std::string& name, Index i, int sample, int term, int use,
                           Index step) {
  Index h = i * 7 + sample * 3 + term * 5 + use * 13 + step * 17;
  for (char c : name) h = (h * 31 + c) % 10007;
  return static_cast<double>(h % 11 - 5);
}

inline double true_gradient(const std::string& name, Index i, Index step = 0) {
  double sum = 0;
  for (int use = 0; use < (name == "table" ? 2 : 1); ++use)
    for (int sample = 0; sample < samples; ++sample)
      for (int term = 0; term < terms; ++term)
        sum += contribution(name, i, sample, term, use, step);
  return sum;
}

/// What this rank's backward would have left in its gradients.
inline void write_local_gradients(TinyRank& r, const MeshShape& shape, int rank, Index step = 0) {
  const int pipeline = shape.size(Axis::pipeline), stage = shape.coordinate(rank, Axis::pipeline);
  std::set<std::string> frozen;
  for (std::size_t i = 0; i < r.layout->parameters().size(); ++i)
    for (const ParameterPart& part : r.layout->declared(static_cast<int>(i)).parts)
      if (r.layout->declared(static_cast<int>(i)).frozen()) frozen.insert(part.name);
  for (const FlatExtent& flat : r.layout->parameter_extents()) {
    const std::string& name = flat.extent.name;
    if (frozen.count(name) > 0) continue;
    const bool summed = name.find("head_norm") != std::string::npos;
    for_each_element(flat, [&](Index i, Index offset) {
      double sum = 0;
      for (int use = 0; use < 2; ++use) {
        if (name != "table" && use == 1) continue;
        if (name == "table" && use == 0 && stage != 0) continue;
        if (name == "table" && use == 1 && stage != pipeline - 1) continue;
        for (int s = 0; s < samples; ++s)
          for (int t = 0; t < terms; ++t) {
            if (s % shape.size(Axis::data) != shape.coordinate(rank, Axis::data)) continue;
            if (summed && t % shape.size(Axis::tensor) != shape.coordinate(rank, Axis::tensor))
              continue;
            sum += contribution(name, i, s, t, use, step);
          }
      }
      r.flat->gradient_data()[offset] = static_cast<float>(sum);
    });
  }
}

}  // namespace trireme::testing
