// One stage of a traced graph on the test device, with parameters and inputs of deterministic
// contents and memory full of NaN.
#pragma once

#include <cstring>

#include "trireme/comm/mesh.h"

#include "runtime/graph/device_scalars.h"
#include "runtime/graph/executor.h"
#include "tests/graph/toy_ops.h"

namespace trireme::test {

/// Deterministic contents.
inline float number(std::uint64_t what, Index i, float scale = 0.5f) {
  return scale * (2 * Random{what * 7919 + 17}.uniform(i) - 1);
}

using ParameterValues = std::vector<std::vector<float>>;
inline ParameterValues initial_parameters(const Graph& graph) {
  ParameterValues values;
  for (const Parameter& p : graph.parameters()) {
    values.emplace_back(static_cast<std::size_t>(p.spec.shape.count()));
    for (std::size_t i = 0; i < values.back().size(); ++i)
      values.back()[i] = number(static_cast<std::uint64_t>(p.id) + 1, static_cast<Index>(i));
  }
  return values;
}

/// One stage: plan, memory full of NaN, executor.
class Stage {
 public:
  Stage(const Graph& graph, const Values& results, const StageCut& cut, int stage,
        PlanOptions options, const ParameterValues& values, Mesh& mesh, int slots = 2,
        ExecutorHooks* hooks = nullptr, ExecutorOptions executor_options = {})
      : plan(graph, results, cut, stage, options), stream(device), slots_(slots) {
    const PlanBytes& bytes = plan.bytes();
    stride_ = (bytes.slot + 4095) / 4096 * 4096;
    memory_ = allocate_host(stride_ * slots + 4096);
    scratch_ = allocate_host(bytes.scratch + 4096);
    std::memset(memory_.data(), 0xff, static_cast<std::size_t>(stride_ * slots + 4096));
    std::memset(scratch_.data(), 0xff, static_cast<std::size_t>(bytes.scratch + 4096));
    ExecutorMemory memory{memory_.data(), stride_, scratch_.data(), {}, {}};
    memory.scalars = scalars.data();
    for (const int p : plan.parameters()) {
      const Spec& spec = graph.parameters()[static_cast<std::size_t>(p)].spec;
      parameters.push_back(values[static_cast<std::size_t>(p)]);
      gradients.emplace_back(parameters.back().size(), 0.0f);
      memory.parameters.emplace_back(parameters.back().data(), spec.shape);
      if (options.mode == PlanOptions::Mode::training)
        memory.gradients.emplace_back(gradients.back().data(), spec.shape);
    }
    executor = std::make_unique<Executor>(plan, memory, stream, mesh, hooks ? *hooks : no_hooks,
                                          executor_options);
  }

  Plan plan;
  TestDevice device;
  TestStream stream;
  DeviceScalars scalars{stream};
  ExecutorHooks no_hooks;
  std::vector<std::vector<float>> parameters, gradients;
  std::unique_ptr<Executor> executor;

 private:
  int slots_;
  Index stride_ = 0;
  Buffer memory_, scratch_;
};

/// Inputs of micro-batch m: floats, or tokens below 4.
class InputData {
 public:
  InputData(const Graph& graph, int m) {
    for (const int id : graph.inputs()) {
      const Spec& spec = graph.values()[static_cast<std::size_t>(id)].spec;
      data_.emplace_back(static_cast<std::size_t>(spec.bytes()));
      const auto key = static_cast<std::uint64_t>(1000 + m * 10) + data_.size();
      for (Index i = 0; i < spec.shape.count(); ++i) {
        if (spec.dtype == DType::i32)
          reinterpret_cast<std::int32_t*>(data_.back().data())[i] =
              static_cast<std::int32_t>(Random{key}.bits(i) % 4);
        else
          reinterpret_cast<float*>(data_.back().data())[i] = number(key, i, 1);
      }
      tensors_.emplace_back(data_.back().data(), spec.shape, spec.dtype);
    }
  }
  std::span<const Tensor> tensors() const { return tensors_; }

 private:
  std::vector<std::vector<std::byte>> data_;
  std::vector<Tensor> tensors_;
};

inline void carry(Stage& from, const Transfer& sent, Stage& to, const Transfer& received,
                  int slot) {
  require(sent.bytes == received.bytes && sent.names == received.names,
          "the stages do not agree on what crosses");
  if (sent.bytes > 0)
    std::memcpy(to.executor->transfer(slot, received), from.executor->transfer(slot, sent),
                static_cast<std::size_t>(sent.bytes));
}

}  // namespace trireme::test
