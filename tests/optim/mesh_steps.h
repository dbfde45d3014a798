// Runs whole optimizer steps of the tiny model on a thread mesh: backward is imitated by the hooks'
// calls.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include <gtest/gtest.h>

#include "runtime/graph/device_scalars.h"
#include "runtime/optim/gradient_reducer.h"
#include "runtime/optim/optimizer.h"
#include "tests/optim/tiny_model.h"

namespace trireme::testing {

/// One rank of the mesh with all that a step needs.
struct StepRank {
  StepRank(Mesh& mesh_, const Layout& layout, const TinyOptions& tiny,
           const OptimizerOptions& options)
      : mesh(mesh_),
        shape(layout.shape()),
        device(open_cpu()),
        stream(device->make_stream()),
        model(shape, mesh.rank(), tiny) {
    model.bind(mesh);
    model.flat->initialise(7, *stream, stream->pool());
    ties = split_ties(*model.flat, mesh);
    reducer = std::make_unique<GradientReducer>(*model.flat, mesh, *stream, ties);
    state = device->allocate(Optimizer::state_bytes(*model.flat, options));
    optimizer = std::make_unique<Optimizer>(*model.flat, mesh, *stream, options, scalars.data(),
                                            state.data());
  }

  void begin(Index step) {
    reducer->begin_step();
    write_local_gradients(model, shape, mesh.rank(), step);
  }
  /// What executors do in the last micro-batch: chunks backward, a boundary after each op.
  void backward() {
    for (int c = model.layout->chunks() - 1; c >= 0; --c) {
      GradientReducer::Hooks hooks(reducer.get(), c);
      for (std::size_t i = 0; i < model.layout->bucket_of(c).size(); ++i) {
        const auto bucket = static_cast<std::size_t>(model.layout->bucket_of(c)[i]);
        if (!model.layout->all_buckets()[bucket].frozen) hooks.gradient_ready(static_cast<int>(i));
        hooks.op_boundary();
      }
    }
  }
  StepReport step(Index number, double learning_rate) {
    begin(number);
    backward();
    reducer->finish();
    return update(learning_rate);
  }
  void set_rate(double learning_rate) {
    StepScalars rates;
    optimizer->set_rates(rates, learning_rate);
    scalars.write(rates);
  }
  StepReport update(double learning_rate) {
    set_rate(learning_rate);
    return optimizer->step();
  }

  Mesh& mesh;
  MeshShape shape;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  DeviceScalars scalars{*stream};
  TinyRank model;
  Buffer state;
  TieGroups ties;
  std::unique_ptr<GradientReducer> reducer;
  std::unique_ptr<Optimizer> optimizer;
};

/// Logical tensors put together from all copies on all ranks; copies have to agree bit for bit.
class Gathered {
 public:
  void add(const std::vector<FlatExtent>& extents, const float* data,
           const std::string& prefix = "") {
    const std::lock_guard lock(mutex_);
    for (const FlatExtent& flat : extents) {
      auto& values = tensors_[prefix + flat.extent.name];
      values.resize(static_cast<std::size_t>(flat.extent.global.count()), unknown);
      for_each_element(flat, [&](Index i, Index offset) {
        float& value = values[static_cast<std::size_t>(i)];
        if (value != unknown && value != data[offset]) ++disagreements_;
        value = data[offset];
      });
    }
  }
  int disagreements() const { return disagreements_; }
  const std::map<std::string, std::vector<float>>& tensors() const { return tensors_; }

 private:
  static constexpr float unknown = 1e30f;
  std::mutex mutex_;
  std::map<std::string, std::vector<float>> tensors_;
  int disagreements_ = 0;
};

}  // namespace trireme::testing
