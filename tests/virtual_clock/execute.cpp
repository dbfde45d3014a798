#include "tests/virtual_clock/execute.h"

#include <algorithm>
#include <map>
#include <memory>

#include "runtime/core/at.h"
#include "runtime/cost/stage_time.h"
#include "runtime/graph/device_scalars.h"
#include "runtime/optim/gradient_reducer.h"
#include "runtime/optim/optimizer.h"
#include "runtime/pipeline/executor.h"
#include "runtime/rank_plan/plan_cache.h"
#include "tests/virtual_clock/device.h"
#include "tests/virtual_clock/world.h"

namespace trireme::virtual_clock {
namespace {

using cost::Network;
using cost::OpTime;
using cost::Profile;

/// Of the steps of a plan.
using StepTimes = std::shared_ptr<const std::vector<OpTime>>;

/// What ranks share, made before they run.
struct Job {
  Job(const Model& model, const TrainingSpec& spec, const Profile& profile_,
      const Network& network_)
      : profile(profile_), network(network_) {
    const cost::Group tensor = cost::group_of(spec.mesh, Role::tensor);
    for (int rank = 0; rank < spec.mesh.size(); ++rank) {
      plans.push_back(std::make_unique<PlannedTraining>(model, spec, rank, profile.device, &cache));
      for (const Plan& plan : plans.back()->train.model().chunks) add_times(plan, tensor);
    }
  }
  void add_times(const Plan& plan, const cost::Group& tensor) {
    StepTimes& known = times[&plan.state()];
    if (known) return;
    std::vector<OpTime> each;
    for (const StepWork& work : plan.work())
      each.push_back(cost::op_time(work, profile, tensor, network));
    known = std::make_shared<const std::vector<OpTime>>(std::move(each));
  }

  const Profile& profile;
  const Network& network;
  PlanCache cache;
  std::vector<std::unique_ptr<PlannedTraining>> plans;
  std::map<const Plan::State*, StepTimes> times;
};

/// As those of the trainer, and each step of a plan takes its time.
class ChunkHooks final : public GradientReducer::Hooks {
 public:
  ChunkHooks(GradientReducer& reducer, int chunk, StepTimes times, VirtualStream& stream,
             Communicator& pipeline)
      : Hooks(&reducer, chunk), times_(std::move(times)), stream_(stream), pipeline_(pipeline) {}
  void step_begins(int step) override { stream_.begin_step((*times_)[at(step)]); }
  void step_queued(int) override { stream_.end_step(); }
  void op_boundary() override {
    Hooks::op_boundary();
    pipeline_.progress();
  }

 private:
  StepTimes times_;
  VirtualStream& stream_;
  Communicator& pipeline_;
};

/// Micro-batches without values.
class NoData final : public MicroBatchSource {
 public:
  NoData(const PlannedInputs& plan, void* anywhere) {
    for (const PlannedInputs::Input& input : plan.inputs) {
      inputs_.push_back(input.batch);
      inputs_.back().data = anywhere;
    }
  }
  MicroBatch micro_batch(int, Index number) override {
    return {.number = number, .inputs = inputs_};
  }

 private:
  std::vector<Tensor> inputs_;
};

class Rank {
 public:
  Rank(World& world, const Job& job, int rank)
      : plan_(*job.plans[at(rank)]),
        mesh_(world.make_mesh(rank)),
        device_(job.profile),
        memory_(device_.allocate(plan_.memory_need().arena() + margin)),
        flat_(plan_.flat, take(plan_.flat.parameter_bytes()), take(plan_.flat.gradient_bytes())),
        ties_(split_ties(flat_, *mesh_)),
        reducer_(flat_, *mesh_, stream_, ties_),
        optimizer_(flat_, *mesh_, stream_, plan_.spec.optimizer, scalars_.data(),
                   take(Optimizer::state_bytes(flat_, plan_.spec.optimizer))),
        pipeline_(plan_.train.program(), make_chunks(job), mesh_->axis(Axis::pipeline), stream_),
        data_(plan_.train_inputs, memory_.data()) {}

  ExecutedRank step() {
    const auto now = [&] { return stream_.clock().device(); };
    const double busy_before = stream_.clock().busy();
    ExecutedRank times;
    reducer_.begin_step();
    pipeline_.start(data_);
    times.backward = now();
    reducer_.finish();
    times.summed = now();
    optimizer_.start_step();
    times.updated = now();
    optimizer_.finish_step();
    times.busy = stream_.clock().busy() - busy_before;
    return times;
  }

 private:
  static constexpr Index margin = 1 << 16;  // slots and scratch begin at pages of their own

  std::byte* take(Index bytes) {
    std::byte* data = memory_.data() + taken_;
    taken_ += MemoryNeed::aligned(bytes);
    return data;
  }

  std::vector<PipelineChunk> make_chunks(const Job& job) {
    const PlannedPass& pass = plan_.train;
    std::byte* slots = take(pass.slot_bytes());
    std::byte* scratch = take(pass.scratch_bytes());
    std::vector<PipelineChunk> chunks;
    for (std::size_t c = 0; c < pass.model().chunks.size(); ++c) {
      const Plan& plan = pass.model().chunks[c];
      ExecutorMemory memory;
      memory.slots = slots;
      memory.slot_stride = pass.slot_stride(c);
      memory.scratch = scratch;
      memory.constants = scratch;
      memory.scalars = scalars_.data();
      memory.parameters = flat_.parameter_tensors(plan);
      memory.gradients = flat_.gradient_tensors(plan);
      slots += pass.program().slots[c] * pass.slot_stride(c);
      hooks_.push_back(std::make_unique<ChunkHooks>(reducer_, static_cast<int>(c),
                                                    job.times.at(&plan.state()), stream_,
                                                    mesh_->axis(Axis::pipeline)));
      executors_.push_back(
          std::make_unique<Executor>(plan, std::move(memory), stream_, *mesh_, *hooks_.back()));
      chunks.push_back({&plan, executors_.back().get()});
    }
    return chunks;
  }

  const PlannedTraining& plan_;
  const std::unique_ptr<Mesh> mesh_;
  VirtualDevice device_;
  VirtualStream stream_{device_};
  const DeviceScalars scalars_{stream_};
  Buffer memory_;
  Index taken_ = 0;
  FlatParameters flat_;
  TieGroups ties_;
  GradientReducer reducer_;
  Optimizer optimizer_;
  std::vector<std::unique_ptr<ChunkHooks>> hooks_;
  std::vector<std::unique_ptr<Executor>> executors_;
  PipelineExecutor pipeline_;
  NoData data_;
};

double last(const std::vector<ExecutedRank>& ranks, double ExecutedRank::*time) {
  double latest = 0;
  for (const ExecutedRank& rank : ranks) latest = std::max(latest, rank.*time);
  return latest;
}

}  // namespace

double ExecutedStep::end() const { return last(ranks, &ExecutedRank::updated); }
double ExecutedStep::backward() const { return last(ranks, &ExecutedRank::backward); }
double ExecutedStep::summed() const { return last(ranks, &ExecutedRank::summed); }

double ExecutedStep::busy() const {
  double sum = 0;
  for (const ExecutedRank& rank : ranks) sum += rank.busy;
  return sum / (seconds() * static_cast<double>(ranks.size()));
}

std::vector<ExecutedStep> execute(const Model& model, const TrainingSpec& spec,
                                  const Profile& profile, const Network& network, int steps) {
  const Job job(model, spec, profile, network);
  World world(spec.mesh, profile, network);
  std::vector<ExecutedStep> executed(at(steps));
  for (ExecutedStep& step : executed) step.ranks.resize(at(spec.mesh.size()));
  world.tasks().run([&](int number) {
    Rank rank(world, job, number);
    for (ExecutedStep& step : executed) step.ranks[at(number)] = rank.step();
  });
  for (std::size_t s = 1; s < executed.size(); ++s) executed[s].begin = executed[s - 1].end();
  return executed;
}

}  // namespace trireme::virtual_clock
