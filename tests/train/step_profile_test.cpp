// --profile-ops: rows, times and files of a step that is profiled, and that nothing else changes.
#include "runtime/train/profile/step_profile.h"

#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/train/trainer.h"

#include "runtime/core/json/json.h"
#include "tests/support/host_stream.h"
#include "tests/support/scratch_directory.h"
#include "tests/train/two_blocks.h"

namespace trireme::train {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr Index micro_batches = 4;

class ProfiledSamples final : public DataSource {
 public:
  Index fill(Index sample, std::span<const Tensor> out) override {
    for (Index i = 0; i < two_blocks_width; ++i) {
      const auto x = static_cast<float>(sample % 7 + i);
      if (out[0].data != nullptr) out[0].as<float>()[i] = x;
      if (out[1].data != nullptr) out[1].as<float>()[i] = std::sin(x);
    }
    return two_blocks_width;
  }
};

Options options_of(const std::string& profile_ops) {
  Options options;
  options.global_batch_size = micro_batches;
  options.train_iters = options.learning_rate.decay_iters = 3;
  options.log_level = LogLevel::quiet;
  options.profile_ops = profile_ops;
  options.profile_step = 2;
  return options;
}

/// On every rank of `shape`, with its Context.
void on_ranks(const MeshShape& shape, Options options, const std::function<void(Context&)>& f) {
  options.pipeline_size = shape.size(Axis::pipeline);
  run_on_threads(shape, [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), LogLevel::quiet);
    Context context(options, mesh, *stream, log);
    f(context);
  });
}

/// The losses that the last rank sees.
std::vector<double> train_profiled(const MeshShape& shape, const Options& options) {
  std::vector<double> losses;
  on_ranks(shape, options, [&](Context& context) {
    Trainer trainer(context, Model(two_blocks));
    ProfiledSamples samples;
    std::vector<double> mine;
    for (int i = 0; i < 3; ++i) mine.push_back(trainer.step(samples).loss);
    if (context.mesh().rank() == shape.size() - 1) losses = mine;
  });
  return losses;
}
std::vector<double> train_profiled(const MeshShape& shape, const std::string& profile_ops) {
  return train_profiled(shape, options_of(profile_ops));
}

Json read_json(const std::string& path) {
  std::ifstream file(path);
  return parse_json(std::string(std::istreambuf_iterator<char>(file), {}));
}

double number(const Json& object, const char* key) {
  const Json* found = object.find(key);
  if (const auto* whole = std::get_if<Index>(&found->value)) return static_cast<double>(*whole);
  return std::get<double>(found->value);
}

const Json::Array& rows_of(const Json& profile) {
  return std::get<Json::Array>(profile.find("rows")->value);
}

Json row(const Json& profile, const std::string& op, const std::string& phase) {
  for (const Json& row : rows_of(profile))
    if (std::get<std::string>(row.find("op")->value) == op &&
        std::get<std::string>(row.find("phase")->value) == phase)
      return row;
  throw Error("no row " + op + " " + phase);
}

std::vector<std::string> ops_of_steps(const Json& profile) {
  std::vector<std::string> ops;
  for (const Json& row : rows_of(profile))
    if (std::get<std::string>(row.find("phase")->value) == "step")
      ops.push_back(std::get<std::string>(row.find("op")->value));
  return ops;
}

TEST(ProfileOps, WritesTheRowsOfItsStepAndChangesNothing) {
  const ScratchDirectory folder;
  const std::string file = folder / "profile.json";
  EXPECT_EQ(train_profiled(MeshShape(1, 1, 1), file), train_profiled(MeshShape(1, 1, 1), ""));
  const Json profile = read_json(file);
  EXPECT_EQ(number(profile, "step"), 2);
  EXPECT_EQ(number(profile, "micro_batches"), micro_batches);
  EXPECT_GT(number(profile, "copy_bytes_per_s"), 0);
  EXPECT_GT(number(profile, "product_flops_per_s"), 0);
  EXPECT_THAT(ops_of_steps(profile), UnorderedElementsAre("data", "zero_gradients", "load", "seed",
                                                          "result", "gradient_norm", "update"));
  const double products =
      4 * 2 * 2 * two_blocks_width * two_blocks_width;  // two layers, twice wider
  const Json forward = row(profile, "linear", "forward");
  EXPECT_EQ(number(forward, "calls"), 4 * micro_batches);
  EXPECT_EQ(number(forward, "flops"), products * micro_batches);
  EXPECT_EQ(std::get<Json::Array>(forward.find("names")->value).size(), 4u);
  // The first layer has no gradient of its input.
  EXPECT_EQ(number(row(profile, "linear", "backward"), "flops"),
            (2 - 1.0 / 4) * products * micro_batches);
  double ms = 0;
  for (const Json& each : rows_of(profile)) {
    ms += number(each, "ms");
    EXPECT_NE(number(each, "ms"), 0) << "a row that nothing marks";
    EXPECT_TRUE(std::holds_alternative<std::nullptr_t>(each.find("operations")->value));  // a CPU
  }
  EXPECT_NEAR(ms, number(profile, "device_ms"), 1e-9);
  EXPECT_LE(number(profile, "device_ms"), number(profile, "wall_ms"));
}

TEST(ProfileOps, EachStageHasRowsOfItsOwn) {
  const ScratchDirectory folder;
  const std::string file = folder / "profile.json";
  const MeshShape shape(2, 2, 1);
  EXPECT_EQ(train_profiled(shape, file), train_profiled(shape, ""));
  const Json profile = read_json(file);
  EXPECT_EQ(profile.find("rows"), nullptr);
  const auto& stages = std::get<Json::Array>(profile.find("stages")->value);
  ASSERT_EQ(stages.size(), 2u);  // of one data rank
  for (std::size_t s = 0; s < stages.size(); ++s) {
    EXPECT_EQ(number(stages[s], "stage"), static_cast<double>(s));
    EXPECT_EQ(number(row(stages[s], "linear", "forward"), "calls"), 2 * micro_batches / 2);
    const double sent = 4.0 * two_blocks_width * micro_batches / 2;
    EXPECT_EQ(number(row(stages[s], "exchange", "step"), "bytes"), sent);
    EXPECT_GT(number(row(stages[s], "gradient_sums", "step"), "bytes"), 0);
    EXPECT_GT(number(row(stages[s], "between_ops", "step"), "calls"), 0);
  }
  EXPECT_THROW(row(stages[0], "squared_error", "forward"), Error);
  EXPECT_THROW(row(stages[0], "result", "step"), Error);
}

TEST(ProfileOps, ARankThatUpdatesAllWaitsForSumsThatItSendsNothingOf) {
  const ScratchDirectory folder;
  Options options = options_of(folder / "profile.json");
  options.use_distributed_optimizer = true;
  options.optimizer_shares = {1, 0};
  train_profiled(MeshShape(2, 1, 1), options);
  const Json sums = row(read_json(options.profile_ops), "gradient_sums", "step");
  EXPECT_GT(number(sums, "calls"), 0);
  EXPECT_EQ(number(sums, "bytes"), 0);
  EXPECT_NE(number(sums, "ms"), 0) << "a row that nothing marks";
}

TEST(ProfileOps, AFileThatCannotBeWrittenStopsTheJobWithItsName) {
  const ScratchDirectory folder;
  try {
    train_profiled(MeshShape(1, 1, 1), folder / "gone/profile.json");
    FAIL() << "wrote into a directory that is not there";
  } catch (const JobError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("gone/profile.json"));
  }
}

/// A device whose timers take a second between any two records, and count them.
class Ticking final : public Event {
 public:
  explicit Ticking(int& records) : records_(records) {}
  void record(Stream&) override { at_ = ++records_; }
  void make_wait(Stream&) override {}
  bool reached() const override { return true; }
  void synchronize() override {}
  double seconds_since(const Event& earlier) const override {
    return at_ - static_cast<const Ticking&>(earlier).at_;
  }

 private:
  int& records_;
  int at_ = 0;
};

class TickingDevice final : public Device {
 public:
  TickingDevice() : Device(DeviceTraits{}) {}
  std::string describe() const override { return "ticks"; }
  const Kernels& kernels() const override { throw Error("no kernels"); }
  Buffer allocate(Index bytes) override { return allocate_host(bytes); }
  Index free_bytes() const override { return 0; }
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Event> make_event() override { return make_timer(); }
  std::unique_ptr<Event> make_timer() override { return std::make_unique<Ticking>(records); }
  int records = 0;
};

class TickingStream final : public HostStream {
 public:
  explicit TickingStream(Device& device) : HostStream(device) {}
  Index operations() const override { return queued; }
  Index queued = 0;
};

std::unique_ptr<Stream> TickingDevice::make_stream() {
  return std::make_unique<TickingStream>(*this);
}

TEST(StepProfile, TimesWhatIsMarkedAndRecordsNothingElsewhere) {
  on_ranks(MeshShape(1, 1, 1), options_of(""), [](Context& context) {
    const TrainingSpec spec = training_spec(context.options(), context.mesh().shape());
    const PlannedModel model = plan_training(two_blocks, {spec, 0, context.device().traits()});
    const FlatLayout flat(*model.graph, model.cut, model.pointers(), flat_options(spec, 0));
    const StageProgram program = make_program(ScheduleKind::one_f_one_b, {1, 1, micro_batches}, 0);
    TickingDevice device;
    TickingStream stream(device);
    StepProfile profile(StepTable(model, program, flat, context), stream);
    profile.mark(StepPart::update);
    EXPECT_EQ(device.records, 0);
    stream.queued = 100;
    profile.begin();
    EXPECT_EQ(device.records, 1);
    stream.queued += 3;
    profile.mark(StepPart::data);
    profile.mark(StepPart::exchange);  // there are no other stages
    stream.queued += 4;
    profile.mark(StepPart::update);
    stream.queued += 5;
    profile.mark(StepPart::data);
    profile.end();
    profile.mark(StepPart::data);
    EXPECT_EQ(device.records, 4);
    const std::vector<StepProfile::Times> times = profile.times();
    const auto of = [&](StepPart part) {
      return times.at(static_cast<std::size_t>(profile.table().row_of(part)));
    };
    EXPECT_EQ(of(StepPart::data).marks, 2);
    EXPECT_EQ(of(StepPart::data).seconds, 2);
    EXPECT_EQ(of(StepPart::data).operations, 3 + 5);
    EXPECT_EQ(of(StepPart::update).seconds, 1);
    EXPECT_EQ(of(StepPart::update).operations, 4);
    EXPECT_EQ(of(StepPart::gradient_norm).marks, 0);
    profile.begin();  // another step begins anew
    profile.mark(StepPart::update);
    profile.end();
    EXPECT_EQ(
        profile.times().at(static_cast<std::size_t>(profile.table().row_of(StepPart::data))).marks,
        0);
  });
}

}  // namespace
}  // namespace trireme::train
