// overlap: what gradient reduction costs after backward has ended, reduced beside backward or all
// at the end.
//   mpirun -np 4 build/release/bin/overlap
// One JSON object per case: exposed_ms is the time between the end of backward and reduced
// gradients, hidden the share of buckets whose reduction started before that.
#include <chrono>
#include <vector>

#include <fmt/format.h>

#include "trireme/kernels/device.h"
#include "trireme/nn/nn.h"

#include "runtime/comm/mpi/mpi_session.h"
#include "runtime/graph/device_scalars.h"
#include "runtime/optim/gradient_reducer.h"
#include "runtime/optim/optimizer.h"
#include "tests/benchmarks/timing.h"

using namespace trireme;

namespace {

constexpr Index rows = 512, width = 384;
constexpr int layers = 8, warm_up = 3, steps = 15;

Value perceptron(Graph& g) {
  Value x = g.input("x", {rows, width});
  for (int i = 0; i < layers; ++i)
    x = g.block("block", i,
                [&] { return x + linear(gelu_tanh(linear(x, "up", 4 * width)), "down", width); });
  return squared_error(x, g.input("y", {rows, width}));
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

enum class When { beside_backward, at_the_end };

void measure(Mesh& mesh, When when, Update update, Index bucket_bytes) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  Graph graph;
  graph.plan_for(device->traits());
  const Value loss = perceptron(graph);
  const StageCut cut = cut_stages(graph, {loss}, 1);
  const Plan plan(graph, {loss}, cut, 0);
  const FlatLayout layout(
      graph, cut, {&plan},
      {bucket_bytes, mesh.coordinate(Axis::data), mesh.shape().size(Axis::data), update});
  const Buffer parameters = mesh.allocate(layout.parameter_bytes());
  const Buffer gradients = mesh.allocate(layout.gradient_bytes());
  FlatParameters flat(layout, parameters.data(), gradients.data());
  flat.initialise(1, *stream, stream->pool());
  const TieGroups ties = split_ties(flat, mesh);
  GradientReducer reducer(flat, mesh, *stream, ties);
  const Buffer state = device->allocate(Optimizer::state_bytes(flat, {}));
  DeviceScalars scalars(*stream);
  Optimizer optimizer(flat, mesh, *stream, {}, scalars.data(), state.data());
  const Buffer slot = device->allocate(plan.bytes().slot);
  const Buffer scratch = device->allocate(plan.bytes().scratch);
  GradientReducer::Hooks hooks(when == When::beside_backward ? &reducer : nullptr, 0);
  Executor executor(plan,
                    {slot.data(), plan.bytes().slot, scratch.data(), flat.parameter_tensors(plan),
                     flat.gradient_tensors(plan), nullptr, scalars.data()},
                    *stream, mesh, hooks);
  const Buffer samples = device->allocate(2 * rows * width * size_bytes(DType::f32));
  float* x = reinterpret_cast<float*>(samples.data());
  for (Index i = 0; i < 2 * rows * width; ++i) x[i] = Random{5}.normal(i);
  const Tensor inputs[] = {Tensor(x, {rows, width}), Tensor(x + rows * width, {rows, width})};

  std::vector<double> step_ms, exposed_ms;
  double hidden = 0;
  for (int step = 0; step < warm_up + steps; ++step) {
    mesh.world().barrier();
    const double start = now_ms();
    reducer.begin_step();
    StepScalars of_step{.step = step, .loss_scale = 1.0 / (rows * width)};
    optimizer.set_rates(of_step, 1e-4);
    scalars.write(of_step);
    const MicroBatch batch{.step = step, .last = true, .inputs = inputs};
    executor.forward(0, batch);
    executor.backward(0, batch);
    const double backward_end = now_ms();
    reducer.finish();
    const double reduced = now_ms();
    optimizer.step();
    if (step < warm_up) continue;
    step_ms.push_back(now_ms() - start);
    exposed_ms.push_back(reduced - backward_end);
    for (const ReductionRecord::Entry& entry : reducer.record().entries)
      hidden += entry.start_ms < reducer.record().backward_end_ms;
  }
  if (mesh.rank() == 0)
    fmt::print(
        "{{\"ranks\": {}, \"when\": \"{}\", \"update\": \"{}\", \"gradient_mb\": {:.1f}, "
        "\"buckets\": {}, \"hidden\": {:.2f}, \"exposed_ms\": {:.2f}, \"step_ms\": {:.2f}}}\n",
        mesh.shape().size(), when == When::beside_backward ? "beside backward" : "at the end",
        update == Update::sharded ? "sharded" : "replicated",
        static_cast<double>(flat.gradient_bytes()) * 1e-6, flat.buckets().size(),
        hidden / (steps * static_cast<double>(flat.buckets().size())), median(exposed_ms),
        median(step_ms));
}

}  // namespace

int main(int argc, char** argv) {
  MpiSession session(argc, argv);
  const auto mesh = session.make_mesh(MeshShape(session.size(), 1, 1));
  for (Update update : {Update::replicated, Update::sharded})
    for (Index bucket_bytes : {Index{1} << 20, Index{4} << 20, Index{16} << 20})
      for (When when : {When::beside_backward, When::at_the_end})
        measure(*mesh, when, update, bucket_bytes);
}
