// train_gpt with a fault in its memory or arithmetic, which --flip WHAT:RANK:STEP plants: silent
// corruption for supervisor_flips_test.cpp and gpu_flips_test.cpp. Or a rank that stays slow.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <thread>

#include <trireme/kernels/optimizer.h>
#include <trireme/trireme.h>

#include "tests/support/flipping_mesh.h"

using namespace trireme;

namespace {

/// What goes wrong, once in each of the first `attempts` attempts.
struct Flip {
  std::string what;  // empty: nothing
  int rank = 0;      // -1: all
  Index step = 0, attempts = 1;

  bool is_of(int other_rank) const {
    const char* attempt = std::getenv("TRIREME_ATTEMPT");
    return !what.empty() && (rank < 0 || rank == other_rank) &&
           (attempt == nullptr ? 1 : std::atoll(attempt)) <= attempts;
  }
};

/// The CPU, whose updates may be wrong.
class FaultyDevice final : public Device {
 public:
  FaultyDevice(Device& real, const Kernels& kernels)
      : Device(real.traits()), real_(real), kernels_(kernels) {}
  std::string describe() const override { return real_.describe(); }
  const Kernels& kernels() const override { return kernels_; }
  Buffer allocate(Index bytes) override { return real_.allocate(bytes); }
  Index free_bytes() const override { return real_.free_bytes(); }
  std::unique_ptr<Stream> make_stream() override { return real_.make_stream(); }
  std::unique_ptr<Event> make_event() override { return real_.make_event(); }

 private:
  Device& real_;
  Kernels kernels_;
};

class FaultyStream final : public Stream {
 public:
  FaultyStream(Device& faulty, Stream& real) : Stream(faulty), real_(real) {}
  void copy(void* to, const void* from, Index bytes) override { real_.copy(to, from, bytes); }
  void zero(void* data, Index bytes) override { real_.zero(data, bytes); }
  void copy(const Tensor& to, const Tensor& from) override { real_.copy(to, from); }
  void add(const Tensor& to, const Tensor& from) override { real_.add(to, from); }
  bool wait_and_check_finite(const Tensor& x) override { return real_.wait_and_check_finite(x); }
  void synchronize() override { real_.synchronize(); }
  ThreadPool& pool() override { return real_.pool(); }

  Stream& real() { return real_; }
  std::string wrong_update;  // of the next update: "update" or "moment"; empty: none is
  float* moment = nullptr;   // the first one of the last update

 private:
  Stream& real_;
};

/// As the CPU's; then one number of it may be wrong.
void faulty_adamw(Stream& stream, const AdamW& update) {
  auto& faulty = static_cast<FaultyStream&>(stream);
  faulty.real().kernels().optimizer.adamw(stream, update);
  const std::string what = std::exchange(faulty.wrong_update, "");
  if (what == "update") update.parameter[0] += 1;
  if (what == "moment") update.first_moment[0] += 1;
  faulty.moment = update.first_moment;
}

/// Plants what has to be there when a step begins.
class FaultyData final : public DataSource {
 public:
  FaultyData(DataSource& real, Index batch, Index step, std::function<void()> plant)
      : real_(real), batch_(batch), step_(step), plant_(std::move(plant)) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    if (sample / batch_ + 1 == step_ && plant_) std::exchange(plant_, nullptr)();
    return real_.fill(sample, out);
  }
  std::vector<SourcePosition> positions(Index samples) const override {
    return real_.positions(samples);
  }
  std::vector<std::pair<std::string, std::string>> identity() const override {
    return real_.identity();
  }
  std::string file_of(const std::string& fact) const override { return real_.file_of(fact); }

 private:
  DataSource& real_;
  Index batch_, step_;
  std::function<void()> plant_;
};

void train(Context& real, const GptOptions& gpt, GptData& data, const Flip& flip) {
  const int rank = real.mesh().rank();
  const bool mine = flip.is_of(rank), on_cpu = real.device().kind() == DeviceKind::cpu;
  test::FlippingMesh mesh(real.mesh());
  const Kernels& kernels = real.device().kernels();
  OptimizerKernels optimizer = kernels.optimizer;
  optimizer.adamw = faulty_adamw;
  FaultyDevice device(real.device(),
                      {kernels.activation, kernels.arithmetic, kernels.attention,
                       kernels.cross_entropy, kernels.elementwise, kernels.embedding, kernels.gemm,
                       kernels.hash, kernels.norm, optimizer, kernels.rotary});
  FaultyStream stream(device, real.stream());
  const auto scale = [&](float factor) {
    for (int i = 0; i < 8000; ++i) mesh.parameters()[i] *= factor;
  };
  int ops = -1;  // since a wrong computation of gradients began
  bool slow = false;
  const auto between_ops = [&]() -> std::string_view {
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (ops >= 0 && (++ops == 4 || ops == 40)) scale(-1);  // their signs, and back
    return real.stop_reason();
  };
  Context context(real.options(), mesh, on_cpu ? stream : real.stream(), real.host(), real.log(),
                  real.configuration(), between_ops);
  Trainer trainer(context, [&] {
    Model model([&](Graph& g) {
      return build_transformer_loss(g, gpt.model, real.options().micro_batch_size);
    });
    model.identity = gpt.model.identity();
    return model;
  }());
  const std::map<std::string, std::function<void()>> plants = {
      {"master", [&] { mesh.flip(22, 5); }},
      {"nan", [&] { mesh.parameters()[5] = std::numeric_limits<float>::quiet_NaN(); }},
      {"scale", [&] { scale(50); }},
      {"gradient", [&] { ops = 0; }},
      {"slow", [&] { slow = true; }},
      {"update", [&] { stream.wrong_update = "update"; }},
      {"moment", [&] { stream.wrong_update = "moment"; }},
      {"kept", [&] { stream.moment[0] += 1; }}};  // since the last step
  FaultyData train(*data.train, real.options().global_batch_size, flip.step,
                   mine ? plants.at(flip.what) : nullptr);
  trainer.fit(train, data.valid.get());
}

}  // namespace

int main(int argc, char** argv) {
  GptOptions gpt;
  GptData data;
  Flip flip;
  std::string place;
  Application application;
  application.name = "flips";
  application.declare = [&](CommandLine& command, Options& options) {
    declare_gpt_options(command, options, gpt);
    command.text("--flip", place, "WHAT:RANK:STEP",
                 "master, nan, scale, gradient, update, moment, kept, slow");
    command.whole("--flip-attempts", flip.attempts, at_least(0), "attempts in which it is planted");
  };
  application.derive_defaults = [&](const CommandLine& command, Options& options) {
    settle_gpt_options(command, options, gpt);
  };
  application.check = [&](const CommandLine& command, const Options& options, Index /*ranks*/,
                          Problems& problems) {
    check_gpt_options(command, options, gpt, problems);
    data = open_gpt_data(options, gpt, problems);
    char what[16] = {};
    long step = 0;
    if (place.empty()) return;
    if (std::sscanf(place.c_str(), "%15[a-z]:%d:%ld", what, &flip.rank, &step) != 3)
      problems.add("--flip ", place, ": expected WHAT:RANK:STEP");
    flip.what = what;
    flip.step = step;
  };
  return run(argc, argv, application, [&](Context& context) { train(context, gpt, data, flip); });
}
