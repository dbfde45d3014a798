// pipeline_bubble: the share of a step in which stages idle, in theory, in the simulation and
// measured.
//   mpirun -np 4 build/release/bin/pipeline_bubble     stages = ranks; one JSON object per case
//   build/release/bin/pipeline_bubble --draw    draws docs/concepts/schedules.md, no measurement
// Ops sleep instead of working (a stage takes 8 ms forward, 8 ms for the gradients of its input and
// 8 ms for those of its weights, in 8 ops): what is measured is the schedule and the transport, not
// the load of the machine or how equal stages are.
#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "trireme/kernels/device.h"
#include "trireme/nn/nn.h"

#include "runtime/comm/mpi/mpi_session.h"
#include "runtime/graph/device_scalars.h"
#include "runtime/pipeline/executor.h"
#include "runtime/pipeline/simulate.h"

using namespace trireme;
using namespace trireme::pipeline;

namespace {

constexpr Index rows = 256, width = 384;  // 393 kB cross each cut
constexpr double forward_ms = 8;          // a stage, all chunks
constexpr int ops = 8;                    // a block; between ops the transport moves on
constexpr int warm_up = 1, steps = 5;

using Clock = std::chrono::steady_clock;
double now_ms() {
  return std::chrono::duration<double, std::milli>(Clock::now().time_since_epoch()).count();
}

// Of a value and a weight. Takes its time, and adds it to a clock that outlives it.
class Sleep final : public Op {
 public:
  Sleep(double ms, double& busy_ms) : ms_(ms), busy_ms_(busy_ms) {}
  std::string name() const override { return "sleep"; }
  Outputs infer(const Specs& in) const override { return {in[0]}; }
  double flops(const Specs&) const override { return 1e12; }  // what stages are cut by
  void forward(Exec& e) const override {
    work([&] { e.stream().copy(e.output(0), e.input(0)); });
  }
  void backward(Exec& e) const override {
    if (e.wants(0)) work([&] { e.stream().copy(e.grad_input(0), e.grad_output(0)); });
    if (e.wants(1)) work([&] { e.stream().zero(e.grad_input(1).data, e.grad_input(1).bytes()); });
  }

 private:
  void work(FunctionRef<void()> write) const {
    const double start = now_ms();
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms_));
    write();
    busy_ms_ += now_ms() - start;
  }
  double ms_;
  double& busy_ms_;
};

class Zeros final : public MicroBatchSource {
 public:
  MicroBatch micro_batch(int, Index number) override {
    return {.number = number, .inputs = inputs_};
  }

 private:
  Buffer data_ = allocate_host(rows * width * size_bytes(DType::f32));
  Tensor inputs_[2] = {Tensor(data_.data(), {rows, width}), Tensor(data_.data(), {rows, width})};
};

struct Chunk {
  Plan plan;
  Buffer slots, scratch, weights, gradients;
  std::unique_ptr<Executor> executor;
};

Chunk make_chunk(Plan plan, const Graph& graph, int slots, Stream& stream, Mesh& mesh,
                 const StepScalars* scalars, ExecutorHooks& hooks) {
  const Index stride = (plan.bytes().slot + 4095) / 4096 * 4096;
  Chunk chunk{std::move(plan), allocate_host(slots * stride), allocate_host(4096), {}, {}, nullptr};
  chunk.scratch = allocate_host(chunk.plan.bytes().scratch);
  chunk.weights = allocate_host(chunk.plan.bytes().parameters);
  chunk.gradients = allocate_host(chunk.plan.bytes().parameters);
  ExecutorMemory memory{chunk.slots.data(), stride, chunk.scratch.data(), {}, {}, nullptr, scalars};
  Index offset = 0;
  for (const int p : chunk.plan.parameters()) {
    const Spec& spec = graph.parameters()[static_cast<std::size_t>(p)].spec;
    memory.parameters.emplace_back(chunk.weights.data() + offset, spec.shape);
    memory.gradients.emplace_back(chunk.gradients.data() + offset, spec.shape);
    offset += spec.bytes();
  }
  chunk.executor = std::make_unique<Executor>(chunk.plan, std::move(memory), stream, mesh, hooks);
  return chunk;
}

class Progress final : public ExecutorHooks {
 public:
  explicit Progress(Communicator& axis) : axis_(axis) {}
  void op_boundary() override { axis_.progress(); }

 private:
  Communicator& axis_;
};

double simulated(ScheduleKind kind, const PipelineShape& shape, int extra_slots) {
  return simulate(make_programs(work_orders(kind, shape), shape, {extra_slots})).bubble();
}

void measure(Mesh& mesh, Stream& stream, ScheduleKind kind, const PipelineShape& shape,
             int extra_slots) {
  double busy_ms = 0;
  Graph graph;
  graph.plan_for(stream.device().traits());
  Value x = graph.input("x", {rows, width});
  x = rms_norm(x, "norm");  // has a parameter, so that gradients flow
  for (int v = 0; v < shape.virtual_stages(); ++v)
    x = graph.block("block", v, [&] {
      Value y = x;
      const Value weight = graph.parameter("weight", {1}, replicated(), ones());
      for (int i = 0; i < ops; ++i)
        y = apply<Sleep>({y, weight}, forward_ms / (shape.chunks * ops), busy_ms);
      return y;
    });
  const Value loss = squared_error(x, graph.input("y", {rows, width}));
  const StageCut cut = cut_stages(graph, {loss}, shape.virtual_stages());
  Communicator& axis = mesh.axis(Axis::pipeline);
  const StageProgram program = make_program(kind, shape, axis.rank(), {extra_slots});
  Progress hooks(axis);
  const DeviceScalars scalars(stream);
  std::vector<Chunk> chunks;
  std::vector<PipelineChunk> borrowed;
  for (int c = 0; c < shape.chunks; ++c) {
    PlanOptions options;
    if (program.splits_backward(c)) options.backward = PlanOptions::Backward::split;
    chunks.push_back(make_chunk(
        Plan(graph, {loss}, cut, shape.virtual_stage(axis.rank(), c), options), graph,
        program.slots[static_cast<std::size_t>(c)], stream, mesh, scalars.data(), hooks));
  }
  for (Chunk& chunk : chunks) borrowed.push_back({&chunk.plan, chunk.executor.get()});
  PipelineExecutor pipeline(program, borrowed, axis, stream);

  Zeros source;
  std::vector<double> bubbles;
  double step_ms = 0;
  for (int step = 0; step < warm_up + steps; ++step) {
    mesh.world().barrier();
    busy_ms = 0;
    const double start = now_ms();
    pipeline.run(source);
    mesh.world().barrier();
    double times[] = {busy_ms};
    const double all = now_ms() - start;
    axis.all_reduce({times, 1, DType::f64}, Reduction::sum, stream);
    if (step < warm_up) continue;
    bubbles.push_back(1 - times[0] / (shape.stages * all));
    step_ms += all / steps;
  }
  std::sort(bubbles.begin(), bubbles.end());
  int slots = 0;
  for (const int count : program.slots) slots += count;
  if (mesh.rank() == 0)
    fmt::print(
        "{{\"schedule\": \"{}\", \"stages\": {}, \"chunks\": {}, \"micro_batches\": {}, \"slots\": "
        "{}, "
        "\"ideal_bubble\": {:.4f}, \"simulated_bubble\": {:.4f}, \"measured_bubble\": {:.4f}, "
        "\"best_bubble\": {:.4f}, "
        "\"step_ms\": {:.1f}}}\n",
        name(kind), shape.stages, shape.chunks, shape.micro_batches, slots,
        ideal_bubble(kind, shape), simulated(kind, shape, extra_slots), bubbles[bubbles.size() / 2],
        bubbles.front(), step_ms);
}

void draw_all() {
  for (const auto& [kind, shape] :
       {std::pair{ScheduleKind::gpipe, PipelineShape{4, 1, 8}},
        {ScheduleKind::one_f_one_b, PipelineShape{4, 1, 8}},
        {ScheduleKind::interleaved, PipelineShape{2, 2, 4}},
        {ScheduleKind::zero_bubble, PipelineShape{4, 1, 8}},
        {ScheduleKind::zero_bubble_v, PipelineShape{2, 2, 4, Route::v}}}) {
    const Simulation simulation = simulate(make_programs(work_orders(kind, shape), shape));
    fmt::print("{}\n{}\n", name(kind), draw(simulation, shape.chunks));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--draw") {
    draw_all();
    return 0;
  }
  MpiSession session(argc, argv);
  const auto mesh = session.make_mesh(MeshShape(1, session.size(), 1));
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  for (const Index micro_batches : {session.size(), 2 * session.size(), 4 * session.size()})
    for (const auto& [kind, chunks] : {std::pair{ScheduleKind::gpipe, 1},
                                       {ScheduleKind::one_f_one_b, 1},
                                       {ScheduleKind::zero_bubble, 1},
                                       {ScheduleKind::zero_bubble_v, 2},
                                       {ScheduleKind::interleaved, 2},
                                       {ScheduleKind::interleaved, 4}})
      for (const int extra_slots : {0, 1}) {
        if (kind == ScheduleKind::gpipe && extra_slots > 0) continue;  // it has them all
        measure(*mesh, *stream, kind, {session.size(), chunks, micro_batches, route_of(kind)},
                extra_slots);
      }
}
