// Trains a GPT-2 or Llama-style transformer on token files, over data x tensor x pipeline parallel
// ranks.
// mpirun -np 8 train_gpt --data-path PREFIX --tp 2 --pp 2; train_gpt --help lists the
// options.
#include <trireme/trireme.h>

using namespace trireme;

int main(int argc, char** argv) {
  GptOptions gpt;
  GptData data;
  std::vector<Prompt> prompts;
  LayoutChoice layout;
  Application application;
  application.name = "train_gpt";
  application.description = "Trains a transformer over data x tensor x pipeline parallel ranks.";
  application.declare = [&](CommandLine& command, Options& options) {
    declare_gpt_options(command, options, gpt);
  };
  application.derive_defaults = [&](const CommandLine& command, Options& options) {
    settle_gpt_options(command, options, gpt);
  };
  application.choose = [&](const CommandLine& command, const Options& options,
                           const RankCounts& counts, Problems& problems) {
    return choose_layout(command, options, gpt, counts, layout, problems);
  };
  application.check = [&](const CommandLine& command, const Options& options, Index /*ranks*/,
                          Problems& problems) {
    check_gpt_options(command, options, gpt, problems);
    data = open_gpt_data(options, gpt, problems);
    prompts = open_prompts(gpt, data.encoder.get(), problems);
  };

  return run(argc, argv, application, [&](Context& context) {
    describe_gpt(context.log(), gpt, data);
    describe_layout_choice(context.log(), layout);
    const Index batch = context.options().micro_batch_size;
    TransformerConfig evaluation = gpt.model;
    evaluation.hidden_dropout = 0;

    Model model([&](Graph& g) { return build_transformer_loss(g, gpt.model, batch); });
    model.identity = gpt.model.identity();
    model.evaluation = [&](Graph& g) { return build_transformer_loss(g, evaluation, batch); };
    if (gpt.generate > 0)
      model.logits = [&](Graph& g) { return build_transformer_logits(g, gpt.model, 1); };

    Trainer trainer(context, model);
    if (gpt.plans_layout) trainer.compare_with(layout.predicted);
    if (data.train)
      trainer.fit(*data.train, data.valid.get());
    else  // --train-iters 0, --skip-train
      trainer.load_parameters(data.tokenizer);
    if (!data.swept.empty()) evaluate_parts(context, trainer, data.swept);
    if (data.valid && !data.train) {
      const Index batches = context.options().eval_iters;
      EvaluationMetrics found;
      found.loss = trainer.evaluate(*data.valid, batches);
      found.bytes_per_target = data.valid->bytes_per_target();
      context.log().info(str("validation ", found.describe(), " (--eval-iters ", batches, ")"));
    }
    if (gpt.generate > 0) generate_texts(context, trainer, gpt, *data.encoder, prompts);
  });
}
