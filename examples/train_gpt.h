// TrainGpt: all of train_gpt but its main(), for programs that start ranks in another way, as tests
// do. A rank has one.
#pragma once

#include <vector>

#include <trireme/trireme.h>

class TrainGpt {
 public:
  TrainGpt();
  TrainGpt(const TrainGpt&) = delete;
  TrainGpt& operator=(const TrainGpt&) = delete;

  /// Its options, and what is checked of them. Refers to this object.
  const trireme::Application& application() const { return application_; }
  /// What it does with them on every rank.
  void train(trireme::Context& context);

 private:
  trireme::GptOptions gpt_;
  trireme::GptData data_;
  std::vector<trireme::Prompt> prompts_;
  trireme::LayoutChoice layout_;
  trireme::Application application_;
};

inline TrainGpt::TrainGpt() {
  using namespace trireme;
  application_.name = "train_gpt";
  application_.description = "Trains a transformer over data x tensor x pipeline parallel ranks.";
  application_.declare = [this](CommandLine& command, Options& options) {
    declare_gpt_options(command, options, gpt_);
  };
  application_.derive_defaults = [this](const CommandLine& command, Options& options) {
    settle_gpt_options(command, options, gpt_);
  };
  application_.choose = [this](const CommandLine& command, const Options& options,
                               const RankCounts& counts, Problems& problems) {
    return choose_layout(command, options, gpt_, counts, layout_, problems);
  };
  application_.check = [this](const CommandLine& command, const Options& options, Index /*ranks*/,
                              Problems& problems) {
    check_gpt_options(command, options, gpt_, problems);
    data_ = open_gpt_data(options, gpt_, problems);
    prompts_ = open_prompts(gpt_, data_.encoder.get(), problems);
  };
}

inline void TrainGpt::train(trireme::Context& context) {
  using namespace trireme;
  describe_gpt(context.log(), gpt_, data_);
  describe_layout_choice(context.log(), layout_);
  const Index batch = context.options().micro_batch_size;
  TransformerConfig evaluation = gpt_.model;
  evaluation.hidden_dropout = 0;

  Model model([&](Graph& g) { return build_transformer_loss(g, gpt_.model, batch); });
  model.identity = gpt_.model.identity();
  model.evaluation = [&](Graph& g) { return build_transformer_loss(g, evaluation, batch); };
  if (gpt_.generate > 0)
    model.logits = [&](Graph& g) { return build_transformer_logits(g, gpt_.model, 1); };

  Trainer trainer(context, model);
  if (gpt_.plans_layout) trainer.compare_with(layout_.predicted);
  if (data_.train)
    trainer.fit(*data_.train, data_.valid.get());
  else  // --train-iters 0, --skip-train
    trainer.load_parameters(data_.tokenizer);
  if (!data_.swept.empty()) evaluate_parts(context, trainer, data_.swept);
  if (data_.valid && !data_.train) {
    const Index batches = context.options().eval_iters;
    EvaluationMetrics found;
    found.loss = trainer.evaluate(*data_.valid, batches);
    found.bytes_per_target = data_.valid->bytes_per_target();
    context.log().result(str("validation ", found.describe(), " (--eval-iters ", batches, ")"));
  }
  if (gpt_.generate > 0) generate_texts(context, trainer, gpt_, *data_.encoder, prompts_);
}
