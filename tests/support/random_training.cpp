#include "tests/support/random_training.h"

#include <vector>

#include "trireme/core/error.h"

#include "tests/support/draw.h"
#include "tests/support/gpt_ranks.h"

namespace trireme::test {
namespace {

using Words = std::vector<std::string>;

/// Steps are few: where one rounding leads to the next, runs part without a fault.
constexpr int steps = 4;

std::string maybe(Draw& draw, Index once_in, const std::string& options) {
  return draw.once_in(once_in) ? options + " " : "";
}

/// A list of `count` numbers below `end`, each at least `least`; equal ones are legal as well.
std::string shares(Draw& draw, Index count, Index least, Index end) {
  std::string all;
  for (Index i = 0; i < count; ++i) all += str(i > 0 ? "," : "", least + draw.below(end - least));
  return all;
}

std::string draw_gpt(Draw& draw) {
  return str("--model gpt2-124m ", maybe(draw, 3, "--untie-embeddings-and-output-weights"),
             maybe(draw, 4, "--disable-bias-linear"), maybe(draw, 4, "--normalization RMSNorm"),
             "--activation ", draw.one_of<std::string>({"gelu-tanh", "gelu-erf", "swiglu"}), " ");
}

std::string draw_llama(Draw& draw, Index heads, bool qwen3) {
  std::vector<Index> groups;
  for (Index count = 1; count <= heads; ++count)
    if (heads % count == 0) groups.push_back(count);
  return str(qwen3 ? "--model qwen3-0.6b " : "--model llama-1b ", "--num-query-groups ",
             draw.one_of(groups), " ", maybe(draw, 2, "--add-qkv-bias"),
             draw.one_of<std::string>(
                 {"", "--rope-type yarn --rope-scaling-factor 4 --rope-original-positions 16 ",
                  "--rope-type llama3 --rope-original-positions 8 ",
                  "--rope-type linear --rope-scaling-factor 2 "}));
}

/// With the usual --adam-eps AdamW takes as large a step where a gradient is only rounding; norms
/// of queries spread it even so.
std::string draw_optimizer(Draw& draw, bool norms_of_queries) {
  return str(norms_of_queries || draw.once_in(2)
                 ? str("--optimizer sgd --lr 0.1 ", maybe(draw, 3, "--momentum 0"))
                 : std::string("--optimizer adamw --lr 3e-3 --adam-eps 1e-6 "),
             "--clip-grad ", draw.one_of<std::string>({"0", "0.5", "1"}), " ",
             maybe(draw, 3, "--weight-decay 0"), maybe(draw, 4, "--lr-warmup-iters 2"));
}

std::string draw_model(Draw& draw, RandomTraining& training, const std::string& data) {
  const Index heads = draw.one_of<Index>({2, 3, 4, 6, 8, 12});
  const Index head = draw.one_of<Index>({4, 8, 10, 16});
  const std::string family = draw.one_of<std::string>({"gpt", "gpt", "llama", "llama", "qwen3"});
  training.global_batch_size = draw.one_of<Index>({8, 12, 16});
  return str("--data-path ", data, " --log-level quiet --train-iters ", steps,
             " --global-batch-size ", training.global_batch_size, " --seed ", draw.below(1000), " ",
             family == "gpt" ? draw_gpt(draw) : draw_llama(draw, heads, family == "qwen3"),
             "--num-attention-heads ", heads, " --hidden-size ", heads * head, " --kv-channels ",
             draw.once_in(4) ? head + 2 : head, " --ffn-hidden-size ",
             heads * draw.one_of<Index>({8, 12, 20}), " --num-layers ", 1 + draw.below(5),
             " --vocab-size ", draw.one_of<Index>({256, 257, 262, 300}), " --seq-length ",
             draw.one_of<Index>({12, 24, 32}), " ", draw_optimizer(draw, family == "qwen3"),
             maybe(draw, 4, "--hidden-dropout 0.1"), maybe(draw, 8, "--freeze block.0"),
             maybe(draw, 16, "--freeze embedding"));
}

std::string draw_pipeline(Draw& draw, Index stages) {
  if (stages == 1) return "";
  const std::string schedule =
      draw.one_of<std::string>({"gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-v"});
  return str("--pp ", stages, " --schedule ", schedule, " ",
             schedule == "interleaved"
                 ? str("--num-virtual-stages-per-pipeline-rank ", 2 + draw.below(2), " ")
                 : maybe(draw, 4, "--stage-speeds " + shares(draw, stages, 1, 3)));
}

std::string draw_data(Draw& draw, Index size) {
  const bool sharded = draw.once_in(2);
  return str(
      size > 1 ? maybe(draw, 4, "--data-parallel-shares " + shares(draw, size, 1, 4)) : "",
      sharded ? "--use-distributed-optimizer " : "",
      sharded && size > 1 ? maybe(draw, 4, "--optimizer-shares " + shares(draw, size, 0, 4)) : "",
      draw.one_of<std::string>({"", "--bucket-size 500 ", "--bucket-size 5000 "}));
}

std::string draw_layout(Draw& draw, RandomTraining& training) {
  const Index data = draw.one_of<Index>({1, 1, 2, 2, 3, 4, 8}),
              tensor = draw.one_of<Index>({1, 1, 2, 2, 3, 4}),
              pipeline = draw.one_of<Index>({1, 1, 2, 2, 3, 4});
  training.ranks = static_cast<int>(data * tensor * pipeline);
  return str(tensor > 1 ? str("--tp ", tensor, " ") : "",
             tensor > 1 ? maybe(draw, 2, "--sequence-parallel") : "", draw_pipeline(draw, pipeline),
             draw_data(draw, data), "--micro-batch-size ", draw.one_of<Index>({1, 1, 2, 4}), " ",
             "--recompute-granularity ", draw.one_of<std::string>({"none", "selective", "full"}),
             " ", maybe(draw, 3, str("--lm-head-chunks ", 2 + draw.below(6))),
             maybe(draw, 8, "--threads-per-rank 2"), maybe(draw, 8, "--verify-step 2"));
}

}  // namespace

std::string RandomTraining::on_one_rank() const {
  return str(model, "--micro-batch-size ", global_batch_size, " ");
}

RandomTraining random_training(std::uint64_t seed, std::uint64_t number, const std::string& data) {
  constexpr Index most_ranks = 8, most_draws = 1000;
  Draw draw(seed, "training", number);
  for (Index i = 0; i < most_draws; ++i) {
    RandomTraining training;
    training.model = draw_model(draw, training, data);
    training.layout = draw_layout(draw, training);
    if (training.ranks <= most_ranks &&
        problems_of(training.ranks, training.on_all_ranks()).empty())
      return training;
  }
  throw Error(str("no legal training in ", most_draws, " draws"));
}

}  // namespace trireme::test
