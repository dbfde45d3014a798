// replica_hashes: what one comparison of the data replicas costs (--check-replicas), beside an
// AdamW update of the same parameters, which every step has.
//   mpirun -np 2 build/release/bin/replica_hashes
// One JSON object per size, from rank 0. ratio: comparison / update; with --check-replicas K its
// share of a step is below ratio / K.
#include "runtime/optim/replica_hashes.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include <fmt/format.h>

#include "trireme/kernels/device.h"
#include "trireme/nn/nn.h"

#include "runtime/comm/mpi/mpi_session.h"
#include "runtime/graph/device_scalars.h"
#include "runtime/optim/optimizer.h"

using namespace trireme;

namespace {

constexpr int layers = 8, rounds = 15;

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The median of `rounds` calls, after one that is not counted.
template <class F>
double median_ms(const F& f) {
  std::vector<double> times;
  for (int i = 0; i <= rounds; ++i) {
    const double start = now_ms();
    f();
    if (i > 0) times.push_back(now_ms() - start);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

void measure(Mesh& mesh, Index width) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  Graph graph;
  graph.plan_for(device->traits());
  Value x = graph.input("x", {1, width});
  for (int i = 0; i < layers; ++i)
    x = graph.block("block", i, [&] { return linear(x, "layer", width); });
  const Value loss = squared_error(x, graph.input("y", {1, width}));
  const StageCut cut = cut_stages(graph, {loss}, 1);
  const Plan plan(graph, {loss}, cut, 0);
  const int ranks = mesh.shape().size(Axis::data);
  const FlatLayout layout(graph, cut, {&plan},
                          {.data_rank = mesh.coordinate(Axis::data), .data_size = ranks});
  const Buffer parameters = mesh.allocate(layout.parameter_bytes());
  const Buffer gradients = mesh.allocate(layout.gradient_bytes());
  FlatParameters flat(layout, parameters.data(), gradients.data());
  flat.initialise(1, *stream, stream->pool());
  const Buffer state = device->allocate(Optimizer::state_bytes(flat, {}));
  const DeviceScalars scalars(*stream);
  Optimizer optimizer(flat, mesh, *stream, {}, scalars.data(), state.data());
  const Buffer memory = mesh.allocate(ReplicaHashes::bytes(flat));
  ReplicaHashes hashes(flat, mesh, *stream, memory.data());

  const double update_ms = median_ms([&] { optimizer.step(); });
  bool differ = false;
  const double compare_ms = median_ms([&] {
    hashes.start();
    hashes.wait();
    differ = differ || hashes.any_differs();
  });
  if (mesh.rank() != 0) return;
  fmt::print(
      "{{\"ranks\":{},\"parameters\":{},\"buckets\":{},\"compare_ms\":{:.3f},\"update_ms\":{:.3f},"
      "\"ratio\":{:.3f},\"GB_per_s\":{:.2f},\"differ\":{}}}\n",
      ranks, flat.count(), flat.buckets().size(), compare_ms, update_ms, compare_ms / update_ms,
      static_cast<double>(flat.master_bytes()) / compare_ms * 1e-6, differ);
}

}  // namespace

int main(int argc, char** argv) {
  MpiSession session(argc, argv);
  if (session.size() < 2) {
    fmt::print(stderr, "replica_hashes compares replicas: start it on 2 ranks or more\n");
    return 64;
  }
  for (const Index width : {256, 1024, 2048}) {
    const auto mesh = session.make_mesh(MeshShape(session.size(), 1, 1));
    measure(*mesh, width);
  }
  return 0;
}
