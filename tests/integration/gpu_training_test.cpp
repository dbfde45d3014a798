// Training on a GPU: the same mathematics as on the CPU, the same bits in any legal order of
// streams, checkpoints that either device loads, and the message to a user who asks for GPUs that
// are not there.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/checkpoint_jobs.h"
#include "tests/support/checkpoint_state.h"
#include "tests/support/gpu_layouts.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

void expect_like_the_cpu(const std::string& model) {
  TrainingHarness harness(gpu_width);
  const std::string options = model + "--micro-batch-size 2 ";
  const TrainingRun cpu = harness.train(ranks_as_threads(1), options);
  const TrainingRun gpu = harness.train(on_emulated_gpus(), options + "--device cuda");
  EXPECT_THAT(harness.output(), HasSubstr("device: GPU 0 "));
  const Difference difference = compare(cpu, gpu);
  EXPECT_TRUE(within_limits(difference)) << describe(difference);

  std::vector<TrainingHarness::Job> jobs;
  for (const EmulatedOrder& order :
       {EmulatedOrder{"lazy", "reverse"}, {"ahead:1", "random:1"}, {"random:7", "random:2"}})
    jobs.push_back({variables_of(order), options + "--device cuda"});
  const std::vector<TrainingRun> again = harness.train_all(on_emulated_gpus(), jobs);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    SCOPED_TRACE(jobs[i].environment);
    const Difference none = compare(gpu, again[i]);
    EXPECT_EQ(none.loss, 0);
    EXPECT_EQ(none.grad_norm, 0);
    EXPECT_EQ(none.gradient, 0) << none.worst_gradient;
    EXPECT_EQ(none.parameter, 0) << none.worst_parameter;
  }
}

TEST(GpuTraining, OfAGptIsThatOfTheCpuInEveryOrder) {
  expect_like_the_cpu(gpu_gpt + "--hidden-dropout 0.1 ");
}
TEST(GpuTraining, OfALlamaIsThatOfTheCpuInEveryOrder) { expect_like_the_cpu(gpu_llama); }

/// In bf16 the devices round at the same places, but not the same sums: the band of
/// docs/concepts/mixed_precision.md.
TEST(GpuTraining, InBf16IsNearThatOfTheCpuWithEitherAttention) {
  TrainingHarness harness("--hidden-size 64 --ffn-hidden-size 64 --train-iters 3 ");
  const std::string model =
      "--model llama-1b --num-attention-heads 2 --num-query-groups 1 --optimizer adamw --lr 3e-3 "
      "--bf16 --micro-batch-size 4 ";
  const TrainingRun cpu = harness.train(ranks_as_threads(1), model);
  for (const std::string attention : {"mma", "simt"}) {
    SCOPED_TRACE(attention);
    const TrainingRun gpu =
        harness.train(on_emulated_gpus({"random:1", "reverse"}),
                      model + "--device cuda --lm-head-chunks 3 --attention " + attention);
    EXPECT_THAT(harness.output(), HasSubstr("GEMM peak of all ranks together, bf16: "));
    const Difference difference = compare(cpu, gpu);
    EXPECT_LE(difference.loss, 0.01) << describe(difference);
    EXPECT_LE(difference.gradient, 0.03) << describe(difference);
    EXPECT_GT(difference.gradient, 0);  // they are not the same sums
  }
}

/// What the host does in `steps` steps, of whose work nothing runs before it is waited for.
struct HostWork {
  int waits_for_streams, waits_for_events, operations;
};
HostWork host_work(int steps, const std::string& options) {
  TrainingHarness harness(str("--hidden-size 32 --ffn-hidden-size 64 --train-iters ", steps, ' '));
  // As if tensors were large: of pageable memory, copies of single numbers alone go by without a
  // wait.
  harness.losses(
      "env EMULATION_REPORT=1 EMULATION_STAGED_KB=1 " + on_emulated_gpus({"lazy", "forward"}),
      options + "--device cuda ");
  const auto number_after = [&](const std::string& words) {
    const std::size_t at = harness.output().find(words);
    require(at != std::string::npos, "no report in:\n", harness.output());
    return std::stoi(harness.output().substr(at + words.size()));
  };
  return {number_after("the host has waited "), number_after("times for streams, "),
          number_after("for events, and queued ")};
}
constexpr int more = 6;  // steps
HostWork work_of_more_steps(const std::string& model) {
  const ScratchDirectory folder;
  const std::string options = model + "--gemm-cache " + folder / "cache" + " ";
  host_work(3, options);  // times the products, for which streams are waited for
  const HostWork few = host_work(3, options), many = host_work(3 + more, options);
  return {many.waits_for_streams - few.waits_for_streams,
          many.waits_for_events - few.waits_for_events, many.operations - few.operations};
}

// For the losses, with all of the step queued behind them, and for what the norm has decided, with
// the update queued behind it.
void expect_two_waits_a_step(const std::string& model) {
  const HostWork work = work_of_more_steps(model + "--micro-batch-size 8 ");
  ASSERT_LT(work.operations, more * 256);
  EXPECT_EQ(work.waits_for_events, 2 * more);
  EXPECT_EQ(work.waits_for_streams, 0);
}

TEST(GpuTraining, WaitsTwiceInAShortStepForTheGpu) { expect_two_waits_a_step(gpu_gpt); }
// Its table of rotations is there already.
TEST(GpuTraining, OfALlamaWaitsTwiceInAShortStepForTheGpu) { expect_two_waits_a_step(gpu_llama); }

// After 64 calls each, for those that are 256 calls behind, unless the step's own waits have been
// there.
TEST(GpuTraining, WaitsInALongStepForWhatIsFarBehindToo) {
  const HostWork work = work_of_more_steps(gpu_gpt + "--micro-batch-size 1 ");
  const double calls = work.operations * 64.0 / 65 / more;  // of a step; and a mark after each 64
  ASSERT_GT(calls, 256 + 64);
  EXPECT_NEAR(work.waits_for_events, more * (2 + (calls - 256) / 64), more * 0.1);
}

const std::string job_model =
    gpu_gpt +
    "--hidden-dropout 0.1 --num-layers 2 --hidden-size 32 --ffn-hidden-size 96 --vocab-size 256 "
    "--seq-length 32 --lr-decay-iters 6 --lm-head-chunks 3 ";

void expect_same_state(const std::string& a, const std::string& b) {
  EXPECT_EQ(first_difference(read_checkpoint(a), read_checkpoint(b)), "");
}

/// A job of `jobs` on an emulated GPU.
Outcome on_gpu(CheckpointJobs& jobs, const std::string& streams, const std::string& options) {
  return jobs.run(
      on_emulated_gpus({streams, "forward"}) +
      jobs.training({"one GPU", 1, "--micro-batch-size 4"}, "--device cuda " + options));
}

class GpuCheckpoints : public testing::Test {
 protected:
  std::string save_and_load(const std::string& name) {
    return "--save " + (jobs_ / name) + " --load " + (jobs_ / name);
  }
  CheckpointJobs jobs_{job_model};
};

TEST_F(GpuCheckpoints, ResumeBitForBitWhateverTheStreamsDo) {
  const Outcome straight =
      on_gpu(jobs_, "eager", "--train-iters 6 --save-interval 2 --save " + (jobs_ / "straight"));
  ASSERT_EQ(straight.exit_code, 0) << straight.output;
  for (const std::string streams : {"lazy", "ahead:1", "random:3"}) {
    SCOPED_TRACE(streams);
    const std::string directory = save_and_load("again-" + streams);
    for (const char* options :
         {"--train-iters 2 ", "--train-iters 6 --save-buffer 2M --save-interval 2 "}) {
      const Outcome part = on_gpu(jobs_, streams, options + directory);
      ASSERT_EQ(part.exit_code, 0) << part.output;
    }
    expect_same_state(jobs_ / "straight/step-000006",
                      jobs_ / ("again-" + streams + "/step-000006"));
  }
}

TEST_F(GpuCheckpoints, AreLoadedByTheCpuAndBack) {
  const Outcome gpu = on_gpu(jobs_, "random:1", "--train-iters 2 " + save_and_load("run"));
  ASSERT_EQ(gpu.exit_code, 0) << gpu.output;
  const std::string from_gpu = jobs_ / "cpu";
  jobs_.succeed(jobs_.training(
      {"two CPUs", 2, "--tp 2 --micro-batch-size 4"},
      "--device cpu --train-iters 2 --load " + (jobs_ / "run") + " --save " + from_gpu));
  expect_same_state(jobs_ / "run/step-000002", from_gpu + "/step-000002");
  const Outcome back =
      on_gpu(jobs_, "lazy", "--train-iters 2 --load " + from_gpu + " --save " + (jobs_ / "back"));
  ASSERT_EQ(back.exit_code, 0) << back.output;
  expect_same_state(from_gpu + "/step-000002", jobs_ / "back/step-000002");
}

TEST(GpuChoice, SaysWhyThereIsNoGpu) {
  CheckpointJobs jobs(job_model + "--train-iters 1 ");
  const Layout one{"one rank", 1, "--micro-batch-size 8"};
  const std::string missing = jobs / "missing.so";
  const std::string no_module = "env TRIREME_CUDA_MODULE=" + missing + " ";
  const Outcome asked = jobs.run(no_module + jobs.training(one, "--device cuda"));
  EXPECT_EQ(asked.exit_code, 64);
  EXPECT_THAT(asked.output, HasSubstr("--device cuda: no GPU can be used: there is no " + missing));
  const Outcome automatic = jobs.run(no_module + jobs.training(one, "--device auto"));
  EXPECT_EQ(automatic.exit_code, 0) << automatic.output;
  EXPECT_THAT(automatic.output, HasSubstr("device: no GPU is used: there is no " + missing));
}

TEST(GpuChoice, TwoRanksShareAGpuOnlyWhenAskedTo) {
  CheckpointJobs jobs(job_model + "--train-iters 1 ");
  const Layout two{"two ranks", 2, "--micro-batch-size 4"};
  const Outcome refused = jobs.run(on_emulated_gpus({}, "1") + jobs.training(two, "--device auto"));
  EXPECT_EQ(refused.exit_code, 64);
  EXPECT_THAT(refused.output, HasSubstr("2 ranks see the same 1 GPU"));
  EXPECT_THAT(refused.output, HasSubstr("--ranks-per-gpu 2"));
  const Outcome shared =
      jobs.run(on_emulated_gpus({}, "1") +
               jobs.training(two, "--device cuda --ranks-per-gpu 2 --serialize-communication"));
  EXPECT_EQ(shared.exit_code, 0) << shared.output;
}

TEST(GpuChoice, RanksMayEachSeeAGpuOfTheirOwn) {
  CheckpointJobs jobs(job_model + "--train-iters 1 ");
  const Outcome apart =
      jobs.run(on_emulated_gpus({}, "own") +
               jobs.training({"two ranks", 2, "--micro-batch-size 4"}, "--device cuda"));
  EXPECT_EQ(apart.exit_code, 0) << apart.output;
}

}  // namespace
}  // namespace trireme::test
