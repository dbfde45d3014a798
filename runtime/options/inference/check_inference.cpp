#include "runtime/options/inference/check_inference.h"

#include "runtime/options/check_options.h"
#include "runtime/options/inference/gpt_tokenizer.h"

namespace trireme::options {

void declare_skip_train(CommandLine& command, GptOptions& gpt) {
  command.flag("--skip-train", gpt.skip_train,
               "train nothing: print loss and perplexity over each token of the validation part of "
               "--data-path, by file, of the weights of --load or --load-hf");
}

void declare_generation(CommandLine& command, GptOptions& gpt) {
  command.whole(
      "--generate", gpt.generate, at_least(0),
      "tokens of text to generate after training, or fewer up to the end of a document; with "
      "--load and without --data-path nothing is trained first");
  command.text("--tokenizer", gpt.tokenizer, "PATH",
               "tokenizer.json, or a directory with one, of the data: makes tokens of prompts and "
               "text of tokens; default: a token is a byte, with --vocab-size 256");
  command.text("--prompt", gpt.prompt, "TEXT", "beginning of the text, which the model continues");
  command.text("--prompts", gpt.prompts, "FILE",
               "file of prompts, one a line; in FILE.jsonl, .ndjson or .json a JSON string or an "
               "object with \"prompt\" a line");
  command.real("--temperature", gpt.temperature,
               {0, std::numeric_limits<double>::infinity(), false, false},
               "temperature of sampling; 0: always take the most probable token");
  command.whole("--top-k", gpt.top_k, at_least(0),
                "draw from so many of the most probable tokens; 0: from all");
  command.real("--top-p", gpt.top_p, {0, 1, true, false},
               "draw from the fewest of them, the most probable ones, whose probabilities add up "
               "to this");
  command.text("--output", gpt.output, "FILE",
               "write each text to this file, as a line of JSON with prompt, text, tokens and "
               "finish, instead of printing it; for plain text redirect stdout");
  command.writes("--output");
}

namespace {

/// Of a job with --skip-train.
void check_skip_train(const CommandLine& command, const Options& options, Problems& problems) {
  const CheckpointOptions& checkpoint = options.checkpoint;
  if (checkpoint.load.empty() && checkpoint.load_hf.empty() && !options.plan_only)
    problems.add("--skip-train evaluates weights: add --load DIR or --load-hf DIR");
  for (const char* option : {"--train-iters", "--save", "--finetune", "--dump-tensors"})
    if (command.given(option))
      problems.add(option, " has no meaning with --skip-train, which neither trains nor saves; ",
                   "leave it out");
  for (const char* option : {"--eval-interval", "--eval-iters"})
    if (command.given(option))
      problems.add(option, " has no meaning with --skip-train, which reads each token of the ",
                   "validation part once; leave it out");
}

}  // namespace

void check_evaluation(const CommandLine& command, const Options& options, const GptOptions& gpt,
                      Problems& problems) {
  if (gpt.skip_train) return check_skip_train(command, options, problems);
  if (command.given("--eval-iters") && options.eval_interval == 0)
    problems.add("--eval-iters has no meaning without --eval-interval; add it or leave it out");
}

void check_generation(const CommandLine& command, const Options& options, const GptOptions& gpt,
                      Problems& problems) {
  if (command.given("--prompt") && command.given("--prompts"))
    problems.add("--prompt and --prompts both say what to continue; leave one out");
  check_output("--output", gpt.output, outputs::texts, problems);
  for (const char* option : {"--top-k", "--top-p"})
    if (command.given(option) && gpt.generate > 0 && gpt.temperature == 0)
      problems.add(option, " has no meaning with --temperature 0, which always takes the most ",
                   "probable token; leave it out");
  for (const char* option :
       {"--tokenizer", "--prompt", "--prompts", "--temperature", "--top-k", "--top-p", "--output"})
    if (command.given(option) && gpt.generate == 0)
      problems.add(option, " has no meaning without --generate; add it or leave ", option, " out");
  if (gpt.generate > 0 && gpt.tokenizer.empty() && gpt.model.vocab_size != 256)
    problems.add("--generate ", gpt.generate, " needs --tokenizer PATH with --vocab-size ",
                 gpt.model.vocab_size, ": without it a token is a byte, and needs --vocab-size 256",
                 tokenizer_to_give(options));
}

}  // namespace trireme::options
