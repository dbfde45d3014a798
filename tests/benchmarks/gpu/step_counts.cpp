// gpu_step_counts: what one training step of a model does on this GPU, counted from its plan: the
// rows of train_gpt --profile-ops, as one object of JSON without times (docs/profiling.md). No
// memory is taken for the model, so it may be larger than the GPU; TRIREME_CUDA_MODULE may name the
// emulated module. Options are those of train_gpt.
//   gpu_step_counts --model gpt2-1558m --micro-batch-size 8 --global-batch-size 8 --bf16
#include <cstdio>

#include "trireme/models/transformer.h"
#include "trireme/options/gpt_options.h"

#include "runtime/train/profile/profile_report.h"

using namespace trireme;
using namespace trireme::train;

namespace {

void print_counts(const GptOptions& gpt, Context& context) {
  const TrainingSpec spec = training_spec(context.options(), context.mesh().shape());
  const PlanTarget target{spec, context.mesh().rank(), context.device().traits()};
  const auto trace = [&](Graph& g) {
    return build_transformer_loss(g, gpt.model, spec.micro_batch_size);
  };
  const PlannedModel model = plan_training(trace, target);
  const StageProgram program =
      make_program(spec.schedule, target.pipeline(), target.coordinate(Role::stage));
  const FlatLayout flat(*model.graph, model.cut, model.pointers(), flat_options(spec, target.rank));
  const Json counts = profile_json(StepTable(model, program, flat, context), context);
  require(std::puts(to_text(counts).c_str()) >= 0, "the counts cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  GptOptions gpt;
  Application application;
  application.name = "gpu_step_counts";
  application.description = "Counts what one training step of a model does on a GPU.";
  application.defaults.device = DeviceOption::cuda;
  application.defaults.log_level = LogLevel::quiet;
  application.declare = [&](CommandLine& command, Options& options) {
    declare_gpt_options(command, options, gpt);
  };
  application.check = [&](const CommandLine& command, const Options& options, Index ranks,
                          Problems& problems) {
    check_gpt_options(command, options, gpt, problems);
    if (ranks != 1) problems.add(ranks, " ranks were started; one counts");
  };
  return run(argc, argv, application, [&](Context& context) { print_counts(gpt, context); });
}
