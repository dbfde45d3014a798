#include "runtime/options/idle_options.h"

namespace trireme {
namespace {

/// "--schedule gpipe", or "--sequence-parallel": as it was given; "" when it was not, or is
/// switched off. Some programs do not declare all options.
std::string given(const CommandLine& command, const std::string& name) {
  for (const auto& [option, value] : command.configuration())
    if (option == name && command.given(name) && value != "false")
      return value == "true" ? name : str(name, " ", value);
  return "";
}

/// What forward passes do not read.
constexpr const char* of_training[] = {"--recompute-granularity",
                                       "--optimizer",
                                       "--lr",
                                       "--min-lr",
                                       "--lr-warmup-iters",
                                       "--lr-decay-style",
                                       "--lr-decay-iters",
                                       "--lr-wsd-decay-iters",
                                       "--lr-wsd-decay-style",
                                       "--weight-decay",
                                       "--clip-grad",
                                       "--max-skipped",
                                       "--check-replicas",
                                       "--verify-step",
                                       "--skip-samples",
                                       "--adam-beta1",
                                       "--adam-beta2",
                                       "--adam-eps",
                                       "--momentum",
                                       "--hidden-dropout",
                                       "--bucket-size",
                                       "--use-distributed-optimizer",
                                       "--optimizer-shares",
                                       "--no-load-optim"};

}  // namespace

std::string idle_options(const CommandLine& command, const Options& o, Index ranks) {
  const bool one_stage = o.pipeline_size == 1;
  const bool trains = o.train_iters > 0;
  const bool loads = !o.checkpoint.load.empty() || !o.checkpoint.load_hf.empty();
  const bool evaluates_only = loads && !given(command, "--data-path").empty();
  const bool evaluates_nothing = o.eval_interval > 0 && !trains && !evaluates_only;
  const struct {
    const char* option;
    bool idle;
    const char* why;
  } table[] = {
      {"--sequence-parallel", o.tensor_size == 1, "tensor parallel size 1"},
      {"--schedule", one_stage, "pipeline parallel size 1: no bubble to fill"},
      {"--num-virtual-stages-per-pipeline-rank", one_stage && o.chunks > 1,
       "pipeline parallel size 1: no bubble to fill"},
      {"--stage-speeds", one_stage, "pipeline parallel size 1"},
      {"--use-distributed-optimizer", o.data_size(ranks) == 1 && !o.forward_only,
       "data parallel size 1"},
      {"--data-parallel-shares", o.data_size(ranks) == 1, "data parallel size 1"},
      {"--optimizer-shares", o.data_size(ranks) == 1 && !o.forward_only, "data parallel size 1"},
      {"--check-replicas", o.check_replicas > 0 && o.data_size(ranks) == 1 && !o.forward_only,
       "data parallel size 1: no replicas"},
      {"--freeze", !trains, "nothing is trained"},
      {"--eval-interval", evaluates_nothing, "nothing is trained"},
      {"--eval-iters", evaluates_nothing, "nothing is trained"},
  };
  std::string all;
  const auto add = [&](const char* option, const char* why) {
    if (const std::string text = given(command, option); !text.empty())
      all += str(all.empty() ? "" : ", ", text, " (", why, ")");
  };
  for (const auto& [option, idle, why] : table)
    if (idle) add(option, why);
  if (o.forward_only)
    for (const char* option : of_training) add(option, "nothing is trained");
  return all;
}

}  // namespace trireme
