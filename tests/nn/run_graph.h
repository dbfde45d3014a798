// Runs forward and backward of a traced loss on 1 to 4 tensor ranks (threads) and returns what does
// not depend on the layout: the loss and the gradients of the logical parameters.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "trireme/comm/mesh.h"
#include "trireme/core/bf16.h"
#include "trireme/kernels/device.h"

#include "runtime/graph/constants.h"
#include "runtime/graph/device_scalars.h"
#include "runtime/graph/executor.h"
#include "tests/nn/parameter_values.h"

namespace trireme {

struct GraphRun {
  double loss = 0;
  std::vector<float> result;                            // of forward-only runs: rank 0's
  std::map<std::string, std::vector<float>> gradients;  // global, by logical name
};

struct RunOptions {
  int tensor_size = 1;
  std::map<std::string, Tensor> inputs;  // by name; borrowed
  PlanOptions plan = {.poison = true};
  Index first_sample = 0;
  int threads = 1;
  DType compute = DType::f32;
  DType parameters =
      DType::f32;  // bf16: initial values are rounded to it, also where f32 is computed with
  std::function<std::unique_ptr<Device>()> device =
      {};  // whose memory the host can reach; empty: a CPU with `threads`
  std::function<void(const Preparation&)> on_prepared = {};  // before the first op runs
  std::function<float(const ParameterPart&, Index)> initial = run_graph_detail::initial_value;
};

using Trace = std::function<Value(Graph&)>;

namespace run_graph_detail {

class OneRank {
 public:
  OneRank(Mesh& mesh, const Trace& trace, const RunOptions& options)
      : mesh_(mesh),
        axis_(mesh.group(Role::tensor)),
        options_(options),
        device_(options.device ? options.device() : open_cpu({.threads = options.threads})),
        stream_(device_->make_stream()),
        graph_(axis_.rank(), axis_.size(), options.compute),
        result_(trace_for_device(trace)),
        plan_(graph_, {result_}, cut_stages(graph_, {result_}, 1), 0, options.plan),
        slot_(device_->allocate(plan_.bytes().slot + 1)),
        scratch_(device_->allocate(plan_.bytes().scratch + 1)),
        constants_(device_->allocate(constant_bytes(graph_))) {
    for (const Buffer* buffer : {&slot_, &scratch_})  // NaN: what is read has to be written first
      std::memset(buffer->data(), 0xff, static_cast<std::size_t>(buffer->bytes()));
    memory_.slots = slot_.data();
    memory_.slot_stride = plan_.bytes().slot;
    memory_.scratch = scratch_.data();
    memory_.constants = constants_.data();
    memory_.scalars = scalars_.data();
    write_constants(graph_, constants_.data(), *stream_);
    const bool training = options.plan.mode == PlanOptions::Mode::training;
    for (const int id : plan_.parameters()) {
      const Parameter& p = parameter(id);
      const Tensor& values = memory_.parameters.emplace_back(allocate(p, p.spec.dtype));
      if (training) memory_.gradients.push_back(allocate(p, DType::f32));
      for (const ParameterPart& part : p.parts)
        for_each_element(part, [&](Index global, Index local) {
          const float value = options.initial(part, global);
          const Bf16 rounded = to_bf16(value);
          if (values.dtype == DType::bf16)
            values.as<Bf16>()[local] = rounded;
          else
            values.as<float>()[local] =
                options.parameters == DType::bf16 ? to_float(rounded) : value;
        });
    }
  }

  void run(GraphRun& out, std::mutex& mutex) {
    ExecutorHooks hooks;
    Executor executor(plan_, memory_, *stream_, mesh_, hooks, {.seed = 11});
    std::vector<Tensor> inputs;
    for (const int id : graph_.inputs())
      inputs.push_back(in_type_of(graph_.values()[static_cast<std::size_t>(id)]));
    Preparation preparation;
    executor.prepare(preparation, [] {});
    if (options_.on_prepared) options_.on_prepared(preparation);
    const MicroBatch batch{.first_sample = options_.first_sample, .last = true, .inputs = inputs};
    executor.forward(0, batch);
    const bool training = !memory_.gradients.empty();
    if (training) {
      executor.backward(0, batch);
      for (std::size_t p = 0; p < memory_.gradients.size(); ++p)
        if (plan_.sums_over_tensor()[p]) {
          const Tensor& g = memory_.gradients[p];
          axis_.all_reduce({g.data, g.count(), g.dtype}, Reduction::sum, *stream_);
        }
    }
    stream_->synchronize();
    const std::lock_guard lock(mutex);
    const Tensor result = executor.result(0);
    if (axis_.rank() == 0 && training) out.loss = *result.as<double>();
    if (axis_.rank() == 0 && !training) out.result = floats_of(result);
    for (std::size_t p = 0; p < memory_.gradients.size(); ++p)
      for (const ParameterPart& part : parameter(plan_.parameters()[p]).parts)
        collect(part, memory_.gradients[p], out.gradients[part.name]);
  }

 private:
  Value trace_for_device(const Trace& trace) {
    graph_.plan_for(device_->traits());
    return trace(graph_);
  }
  const Parameter& parameter(int id) const {
    return graph_.parameters()[static_cast<std::size_t>(id)];
  }
  /// This rank's part of a gradient; where ranks hold the same, they have to hold the same bits.
  static void collect(const ParameterPart& part, const Tensor& local, std::vector<float>& global) {
    const bool shared = part.shard.dim < 0 && !global.empty();
    global.resize(static_cast<std::size_t>(part.global.count()));
    for_each_element(part, [&](Index to, Index from) {
      float& value = global[static_cast<std::size_t>(to)];
      const float mine = local.as<float>()[from];
      require(!shared || value == mine, "tensor ranks have different gradients of ", part.name,
              ": ", value, " and ", mine);
      value = mine;
    });
  }
  Tensor allocate(const Parameter& p, DType dtype) {
    arrays_.push_back(device_->allocate(Spec(p.spec.shape, dtype).bytes()));
    return {arrays_.back().data(), p.spec.shape, dtype};
  }
  /// What the caller gave for an input, rounded where the graph takes bf16.
  Tensor in_type_of(const ValueInfo& input) {
    const Tensor& given = options_.inputs.at(input.name);
    if (given.dtype == input.spec.dtype) return given;
    arrays_.push_back(device_->allocate(input.spec.bytes()));
    const Tensor rounded(arrays_.back().data(), given.shape, input.spec.dtype);
    stream_->copy(rounded, given);
    return rounded;
  }

  Mesh& mesh_;
  Communicator& axis_;
  const RunOptions& options_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Graph graph_;
  Value result_;
  Plan plan_;
  Buffer slot_, scratch_, constants_;
  const DeviceScalars scalars_{*stream_};
  std::vector<Buffer> arrays_;
  ExecutorMemory memory_;
};

}  // namespace run_graph_detail

inline GraphRun run_graph(const Trace& trace, const RunOptions& options) {
  GraphRun out;
  std::mutex mutex;
  run_on_threads(MeshShape(1, 1, options.tensor_size), [&](Mesh& mesh) {
    run_graph_detail::OneRank(mesh, trace, options).run(out, mutex);
  });
  return out;
}

}  // namespace trireme
