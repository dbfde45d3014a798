// trireme_calibrate: measures what a profile of the planner says of a device, all ranks of a job at
// once. `trireme plan --calibrate FILE` starts it under mpirun. Its options are those of train_gpt.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "trireme/kernels/device.h"
#include "trireme/kernels/elementwise.h"
#include "trireme/kernels/kernels.h"
#include "trireme/options/command_line.h"
#include "trireme/options/gpt_options.h"

#include "launch/calibrate/measurements.h"
#include "runtime/core/seconds_since.h"
#include "runtime/cost/profile.h"
#include "runtime/options/check_options.h"
#include "runtime/store/write/unfinished.h"

namespace trireme::calibrate {
namespace {

struct Given {
  std::string output;
  double seconds = 50;  // shared by the parts; the job's start and end come on top
  GptOptions gpt;
  bool has_model = false;  // whose shapes are measured
  bool has_type = false;   // --bf16
};

/// What each part counts in the time that there is.
namespace weights {
constexpr double model_products = 10, products = 14, other_products = 5, attention = 6, loops = 5,
                 links = 10;
double all(bool has_model) {
  return (has_model ? model_products : 0) + products + other_products + attention + loops + links;
}
}  // namespace weights

/// Seconds of each part, as each begins: the same on all ranks.
class Budget {
 public:
  Budget(const Context& context, const Given& given)
      : context_(context), time_(given.seconds, weights::all(given.has_model)) {}

  /// Collective.
  double next(double weight) {
    return time_.next(weight, mean_over_ranks(context_.host(), seconds_since(start_)));
  }

 private:
  const Context& context_;
  SharedTime time_;
  const double start_ = steady_seconds();
};

class Progress {
 public:
  explicit Progress(const Context& context) : context_(context) {}
  void operator()(const std::string& line) const {
    if (context_.host().rank() != 0) return;
    fmt::print("{:4.0f} s  {}\n", seconds_since(start_), line);
    std::fflush(stdout);
  }

 private:
  const Context& context_;
  const double start_ = steady_seconds();
};

/// "CPU AMD EPYC 7B13".
std::string device_name(const Context& context) {
  const std::string text = context.device().describe();
  return text.substr(0, text.find(','));
}

cost::Profile empty_profile(const Context& context, const Nodes& nodes) {
  const Device& device = context.device();
  const bool cpu = device.kind() == DeviceKind::cpu;
  cost::Profile profile;
  profile.name = device_name(context);
  profile.grade = cost::Grade::calibrated;
  profile.device = device.traits();
  profile.queues = !cpu;
  profile.ranks_per_node = nodes.ranks;
  const double free = least_over_ranks(context.host(), static_cast<double>(device.free_bytes()));
  profile.memory = static_cast<Index>(free) / (cpu ? nodes.ranks : 1);
  return profile;
}

/// Of the host, to queue a kernel that has nothing to do; on a CPU, to run it.
double op_seconds(const Context& context, Timer& timer) {
  const Buffer memory = context.device().allocate(64);
  auto* data = reinterpret_cast<float*>(memory.data());
  constexpr double budget_s = 0.2;
  return timer(
      [&](Index) {
        context.stream().kernels().elementwise.add(context.stream(), {1, data, data, data});
      },
      budget_s);
}

void add_products(const Context& context, Timer& timer, const Given& given, int tensor_ranks,
                  const Progress& say, Budget& budget, cost::Profile& profile) {
  const DType compute = context.options().compute();
  const DType other = compute == DType::f32 ? DType::bf16 : DType::f32;
  const auto add = [&](const char* what, const Products& products, double budget_s) {
    const Products measured = measure_products(context, timer, products, budget_s);
    double best = 0;
    for (const auto& each : measured) best = std::max(best, each.flops_per_s);
    profile.products.insert(profile.products.end(), measured.begin(), measured.end());
    say(fmt::format("{}: {} of {} products, up to {:.1f} GFLOP/s", what, measured.size(),
                    products.size(), best / 1e9));
  };
  if (given.has_model) {
    const Products products =
        products_of_model(given.gpt.model, compute, context.device().traits(), tensor_ranks);
    add("products of the model", products, budget.next(weights::model_products));
    profile.grade = cost::Grade::shapes;
  }
  add(name(compute), usual_products(compute), budget.next(weights::products));
  add(name(other), usual_products(other), budget.next(weights::other_products));
  fit_product_model(profile);
}

std::vector<AttentionCase> attention_cases(const Given& given) {
  std::vector<AttentionCase> cases = usual_attention();
  const TransformerConfig& model = given.gpt.model;
  if (given.has_model)
    cases.insert(cases.begin(),
                 {model.seq_length, model.num_attention_heads, model.kv_heads(), model.head_dim()});
  return cases;
}

/// The model with two blocks, where a rank has the memory for its state; else usual ones.
std::vector<TransformerConfig> models_to_train(const Context& context, const Given& given,
                                               const cost::Profile& profile) {
  if (given.has_model) {
    TransformerConfig shallow = given.gpt.model;
    shallow.num_layers = std::min<Index>(2, shallow.num_layers);
    constexpr double bytes_per_parameter = 20, share = 0.25;
    const double state = bytes_per_parameter * static_cast<double>(shallow.parameter_count());
    if (state < share * static_cast<double>(profile.memory)) return {shallow};
  }
  return usual_models(context.device().kind());
}

void set_attention_shares(DType compute, cost::Profile& profile) {
  double sums[2] = {}, counts[2] = {};
  for (const cost::MeasuredAttention& each : profile.attentions) {
    sums[each.backward ? 1 : 0] += each.flops_per_s / profile.peak(compute);
    counts[each.backward ? 1 : 0] += 1;
  }
  profile.attention_forward = sums[0] / counts[0];
  profile.attention_backward = sums[1] / counts[1];
}

void calibrate(const Context& context, const Given& given) {
  const Nodes nodes = find_nodes(context.host());
  const Progress say(context);
  Budget budget(context, given);
  Timer timer(context);
  cost::Profile profile = empty_profile(context, nodes);
  say(fmt::format("{}, {} rank{} on each of {} node{}", profile.name, nodes.ranks,
                  nodes.ranks == 1 ? "" : "s", nodes.count, nodes.count == 1 ? "" : "s"));
  add_products(context, timer, given, nodes.ranks, say, budget, profile);
  measure_attention(context, timer, attention_cases(given), budget.next(weights::attention),
                    profile);
  set_attention_shares(context.options().compute(), profile);
  say(fmt::format("attention: {:.0f} % of the peak forward, {:.0f} % backward",
                  100 * profile.attention_forward, 100 * profile.attention_backward));
  profile.bytes_per_s = mean_over_ranks(context.host(), measure_copy_rate(context.stream()));
  profile.op_seconds = op_seconds(context, timer);
  const Index samples = context.device().kind() == DeviceKind::cuda ? 4 : 2;
  budget.next(weights::loops);  // some steps of training, which take as long as they take
  std::optional<HeldPath> folder;
  if (context.host().rank() == 0)
    folder.emplace(HeldPath::Kind::private_directory,
                   (std::filesystem::temp_directory_path() / "trireme-calibrate-").string(), "");
  measure_loops(context, models_to_train(context, given, profile), given.has_model ? 1 : samples,
                folder ? folder->path() + "/ops.json" : "of rank 0", profile);
  say(fmt::format("memory: copies {:.1f} GB/s, {} ops; an op without work {:.2f} us",
                  profile.bytes_per_s / 1e9, profile.loops.size(), profile.op_seconds * 1e6));
  measure_links(context, timer, nodes, budget.next(weights::links), profile);
  if (!profile.collectives.empty())
    say(fmt::format(
        "links: {} collectives, messages {:.1f} GB/s; a second of hidden traffic costs "
        "{:.2f} s",
        profile.collectives.size(),
        std::max(profile.node.bytes_per_s, profile.across.bytes_per_s) / 1e9, profile.contention));
  profile.spread = timer.spread();
  if (context.host().rank() == 0)
    write_output(
        given.output,
        cost::text_of(profile, fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr)))),
        outputs::device_profile);
  constexpr double quiet = 0.1;
  say(fmt::format(
      "{}: repeats differ by {:.1f} %{}", given.output, 100 * profile.spread,
      profile.spread > quiet ? "; other programs were running: measure again without" : ""));
}

int run_program(int argc, char** argv) {
  Given given;
  Application application;
  application.name = "trireme_calibrate";
  application.description = "Measures this machine for the planner; trireme plan starts it.";
  application.defaults.log_level = LogLevel::quiet;
  application.declare = [&](CommandLine& command, Options& options) {
    declare_gpt_options(command, options, given.gpt);
    command.text("--profile", given.output, "FILE", "where the profile is written");
    command.writes("--profile");
    constexpr double least_seconds = 1, most_seconds = 200;  // trireme plan ends what takes 300
    command.real("--seconds", given.seconds, {least_seconds, most_seconds},
                 "so long it measures, about: longer is more exact");
  };
  application.derive_defaults = [&](const CommandLine& command, Options& options) {
    settle_gpt_options(command, options, given.gpt);
    // Layout and batch of a --config are those of the training, not of this program.
    options.tensor_size = options.pipeline_size = options.chunks = 1;
    options.schedule = ScheduleKind::one_f_one_b;
    options.data_parallel_shares.clear();
    options.optimizer_shares.clear();
  };
  application.check = [&](const CommandLine& command, const Options&, Index, Problems& problems) {
    given.has_type = command.given("--bf16");
    given.has_model = command.given("--model") || command.given("--num-layers");
    if (given.output.empty()) problems.add("--profile FILE is missing");
    options::check_output("--profile", given.output, outputs::device_profile, problems);
  };
  return run(argc, argv, application, [&](Context& context) {
    Options options = context.options();
    if (!given.has_type) options.bf16 = context.device().kind() == DeviceKind::cuda;
    calibrate({options, context.mesh(), context.stream(), context.host(), context.log()}, given);
  });
}

}  // namespace
}  // namespace trireme::calibrate

int main(int argc, char** argv) { return trireme::calibrate::run_program(argc, argv); }
