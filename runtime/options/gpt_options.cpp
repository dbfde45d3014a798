// Declarations and checks of the transformer's options; what is wrong with a model is known by
// problems_of (models).
#include "trireme/options/gpt_options.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "runtime/models/kinds.h"
#include "runtime/models/transformer_limits.h"
#include "runtime/options/check_options.h"
#include "runtime/options/inference/gpt_tokenizer.h"
#include "runtime/options/option_values.h"

namespace trireme::options {
namespace {

// Options of what follows training, or takes its place: evaluation and generation. Parts of
// declare_gpt_options and check_gpt_options (options/gpt_options.h).

void declare_skip_train(CommandLine& command, GptOptions& gpt);
void declare_generation(CommandLine& command, GptOptions& gpt);
void check_evaluation(const CommandLine& command, const Options& options, const GptOptions& gpt,
                      Problems& problems);
void check_generation(const CommandLine& command, const Options& options, const GptOptions& gpt,
                      Problems& problems);

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

}  // namespace
}  // namespace trireme::options

namespace trireme {

using namespace options;

namespace {

void declare_float(CommandLine& c, const std::string& names, float& value, Real legal,
                   const std::string& help) {
  legal.fp32 = true;
  c.add({names, "X", help, false,
         [&value, legal](const std::vector<std::string>& words) {
           value = static_cast<float>(parse_real(words.front(), legal));
         },
         [&value] { return fmt::format("{}", value); }});
}

std::string one_tensor_rank(const Options& o, Index /*ranks*/) {
  return o.tensor_size == 1 ? "tensor parallel size 1" : "";
}

/// Declared first: the options after it refine the preset.
void declare_preset(CommandLine& c, GptOptions& gpt) {
  std::string names;
  for (const std::string& name : preset_names()) names += (names.empty() ? "{" : ",") + name;
  c.add({"--model", "PRESET",
         "preset of the model, which the options below refine: one of the table at the end", false,
         [&gpt, names](const std::vector<std::string>& words) {
           for (const std::string& name : preset_names())
             if (name == options::lower_case(words.front())) {
               gpt.preset = name;
               gpt.model = preset(name);
               return;
             }
           const std::vector<std::string> like = models_like(words.front(), preset_names());
           std::string hint;
           for (const std::string& name : like)
             hint += (hint.empty() ? "; did you mean " : " or ") + name;
           throw Error("expected one of " + names + "}" + hint + (like.empty() ? "" : "?"));
         },
         [&gpt] { return gpt.preset; }});
}

/// The defaults are Llama 3.1's.
void declare_scaling(CommandLine& c, RotaryScaling& s) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  c.choice(
      "--rope-type", s.kind,
      "how rotary embeddings are scaled for sequences longer than those of the first training");
  declare_float(c, "--rope-scaling-factor", s.factor, {1, infinity, false, false},
                "how many times longer; with --rope-type linear, llama3 or yarn");
  c.whole("--rope-original-positions", s.original_positions, {1, TransformerLimits::positions},
          "longest sequence of the first training; with --rope-type llama3 or yarn");
  declare_float(c, "--rope-low-freq-factor", s.low_frequency_factor, {0, infinity, true, false},
                "frequencies with fewer periods in --rope-original-positions are divided by the "
                "factor; with --rope-type llama3");
  declare_float(c, "--rope-high-freq-factor", s.high_frequency_factor, {0, infinity, true, false},
                "frequencies with more periods stay as they are; with --rope-type llama3");
  declare_float(c, "--yarn-beta-fast", s.beta_fast, {0, infinity, true, false},
                "frequencies with more periods in --rope-original-positions stay as they are; with "
                "--rope-type yarn");
  declare_float(c, "--yarn-beta-slow", s.beta_slow, {0, infinity, true, false},
                "frequencies with fewer periods are divided by the factor; with --rope-type yarn");
  declare_float(c, "--yarn-attention-factor", s.attention_factor, {0, infinity, false, false},
                "number that rotated queries and keys are multiplied by; 0: 0.1 ln(factor) + 1; "
                "with --rope-type yarn");
  c.flag_off("--yarn-no-truncate", s.truncate,
             "the range of frequencies between --yarn-beta-fast and --yarn-beta-slow is not "
             "widened to whole pairs of channels; with --rope-type yarn");
}

void declare_model(CommandLine& c, TransformerConfig& m) {
  using Limits = TransformerLimits;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  c.whole("--num-layers", m.num_layers, {1, Limits::layers}, "blocks of attention and MLP");
  c.whole("--hidden-size", m.hidden_size, {1, Limits::channels},
          "channels of the residual stream; without --kv-channels a multiple of the heads");
  c.whole("--ffn-hidden-size", m.ffn_hidden_size, {1, Limits::mlp_channels},
          "channels inside the MLP; default: 4 x --hidden-size");
  c.whole("--num-attention-heads", m.num_attention_heads, {1, Limits::heads}, "query heads");
  c.whole("--num-query-groups", m.num_query_groups, {1, Limits::heads},
          "key and value heads; default: one for each query head");
  c.whole("--kv-channels", m.kv_channels, {1, Limits::channels},
          "channels of a head; default: --hidden-size / --num-attention-heads");
  c.whole("--seq-length", m.seq_length, {1, Limits::sequence}, "tokens of a sample");
  c.whole("--max-position-embeddings", m.max_position_embeddings, {1, Limits::positions},
          "rows of the table of learned positions; default: --seq-length");
  c.whole("--vocab-size", m.vocab_size, {2, Limits::vocabulary},
          "tokens in the vocabulary; need not be a multiple of anything");
  c.choice("--normalization", m.normalization, "kind of the norms");
  declare_float(c, "--norm-epsilon", m.norm_epsilon, {0, 1, true, false},
                "number added to the variance in norms");
  c.choice("--activation", m.mlp, "activation of the MLP");
  c.choice("--position-embedding-type", m.position,
           "how positions enter the model: by a learned table, or by rotary embeddings (rope)");
  declare_float(c, "--rotary-base", m.rotary_base, {0, infinity, true, false},
                "base of the periods of rotary embeddings; with --position-embedding-type rope");
  declare_scaling(c, m.rotary_scaling);
  c.flag_off("--disable-bias-linear", m.add_bias_linear, "linear layers have no bias");
  c.flag("--add-qkv-bias", m.add_qkv_bias,
         "queries, keys and values have a bias all the same; with --disable-bias-linear");
  c.flag("--add-attention-bias", m.add_attention_bias,
         "queries, keys, values and the output of attention have a bias all the same; with "
         "--disable-bias-linear");
  c.flag("--qk-layernorm", m.qk_layernorm,
         "norm each head of queries and keys before positions enter, by weights that heads share");
  c.flag_off("--untie-embeddings-and-output-weights", m.tie_embeddings,
             "the output layer has weights of its own, not those of the embedding");
  declare_float(c, "--init-method-std", m.init_std, {0, infinity, true, false},
                "standard deviation of initial weights");
  c.next({.uses = OptionUse::training});
  declare_float(c, "--hidden-dropout", m.hidden_dropout, {0, 1, false, true},
                "share of activations that is set to 0 after the embedding, attention and MLP");
}

/// --use-checkpoint-args takes all options from the `first` on, and the type that was computed
/// with.
void take_from_checkpoints(CommandLine& c, std::size_t first) {
  using Rule = CommandLine::FromCheckpoint;
  const std::vector<std::string> names = c.names();
  for (std::size_t i = first; i < names.size(); ++i) c.from_checkpoint(names[i], Rule::always);
  for (const char* name : {"--seq-length", "--hidden-dropout", "--init-method-std", "--bf16"})
    c.from_checkpoint(name, Rule::unless_given);
}

void declare_execution(CommandLine& c, TransformerConfig& m) {
  c.group("Execution of the model");
  c.next({.uses = OptionUse::training, .layout = "recompute"});
  c.choice("--recompute-granularity", m.recompute,
           "what backward computes again instead of keeping it in memory; selective: norms and "
           "activations; full: all of a block");
  c.choice(
      "--attention", m.attention_kernels,
      "attention kernels on a GPU; mma: on tensor cores; simt: for all heads up to 128; auto: mma "
      "where possible");
  c.next({.layout = "chunks"});
  c.whole(
      "--lm-head-chunks", m.lm_head_chunks, at_least(1),
      "number of pieces in which the logits of a micro-batch and their loss are computed; only one "
      "piece of the logits exists at a time");
  c.next({.layout = "sp", .why_idle = one_tensor_rank});
  c.add({"--sequence-parallel", "",
         "split norms and dropout over the tensor ranks along the sequence", false,
         [&m](const std::vector<std::string>& words) {
           m.sequence_parallel =
               parse_flag(words.front()) ? SequenceParallel::on : SequenceParallel::off;
         },
         [&m] {
           return std::string(m.sequence_parallel == SequenceParallel::on ? "true" : "false");
         }});
}

void declare_plan(CommandLine& c, GptOptions& gpt) {
  c.group("Choice of the layout", OptionUse::plan);
  c.add({"--plan", "{auto}",
         "choose the fastest layout that fits these ranks, as trireme plan does; options of a "
         "layout that are given stay; default: the layout is that of the options",
         false,
         [&gpt](const std::vector<std::string>& words) {
           require(words.front() == "auto", "expected auto");
           gpt.plans_layout = true;
         },
         [&gpt] { return std::string(gpt.plans_layout ? "auto" : ""); }});
  c.text("--plan-profile", gpt.plan_profile, "FILE|GPU",
         "of --plan auto: the file of trireme plan --calibrate, or of a cluster, or a GPU such as "
         "H100-80; default: the data sheet of the GPU in use");
}

/// Replaces each 0 that means a default by its value.
void settle_model(TransformerConfig& model) {
  model.ffn_hidden_size = model.ffn();
  model.num_query_groups = model.kv_heads();
  model.kv_channels = model.head_dim();
  model.max_position_embeddings = model.positions();
}

/// An unknown option may be what another program calls the kind of positions.
bool has_uncertain_positions(const CommandLine& command) {
  return command.is_uncertain("--model") || command.is_uncertain("--position-embedding-type");
}

/// An option of rotary embeddings, and the kinds of scaling that read it; none: all positions.
struct RopeOption {
  const char* name;
  std::vector<RotaryScalingKind> readers;
};

std::vector<RopeOption> rope_options() {
  using Kind = RotaryScalingKind;
  return {{"--rotary-base", {}},
          {"--rope-type", {}},
          {"--rope-scaling-factor", {Kind::linear, Kind::llama3, Kind::yarn}},
          {"--rope-original-positions", {Kind::llama3, Kind::yarn}},
          {"--rope-low-freq-factor", {Kind::llama3}},
          {"--rope-high-freq-factor", {Kind::llama3}},
          {"--yarn-beta-fast", {Kind::yarn}},
          {"--yarn-beta-slow", {Kind::yarn}},
          {"--yarn-attention-factor", {Kind::yarn}},
          {"--yarn-no-truncate", {Kind::yarn}}};
}

/// "linear, llama3 or yarn"
std::string listed(const std::vector<RotaryScalingKind>& kinds) {
  std::string all;
  for (const RotaryScalingKind kind : kinds)
    all += str(all.empty() ? "" : kind == kinds.back() ? " or " : ", ", name(kind));
  return all;
}

/// Options that the kind of positions, or of their scaling, makes meaningless.
void check_positions(const CommandLine& command, const TransformerConfig& model,
                     Problems& problems) {
  const RotaryScalingKind kind = model.rotary_scaling.kind;
  const bool learned = is_learned(model.position);
  if (!learned && command.given("--max-position-embeddings"))
    problems.add(
        "--max-position-embeddings has no meaning with --position-embedding-type rope; leave it "
        "out");
  for (const auto& [option, readers] : rope_options()) {
    const bool read =
        readers.empty() || std::find(readers.begin(), readers.end(), kind) != readers.end();
    if (!command.given(option)) continue;
    if (learned)
      problems.add(option,
                   " has no meaning with --position-embedding-type learned_absolute; leave it out");
    else if (!read && !command.is_uncertain("--rope-type"))
      problems.add(option, " has no meaning with --rope-type ", name(kind), ", only with ",
                   listed(readers), "; leave it out or set --rope-type");
  }
}

/// An option that another one makes meaningless.
void check_meaning(const CommandLine& command, const GptOptions& gpt, Problems& problems) {
  if (!has_uncertain_positions(command)) check_positions(command, gpt.model, problems);
  const TransformerConfig& m = gpt.model;
  for (const auto& [option, on] : {std::pair{"--add-qkv-bias", m.add_qkv_bias},
                                   {"--add-attention-bias", m.add_attention_bias}})
    if (command.given(option) && on && m.add_bias_linear)
      problems.add(option,
                   " has no meaning without --disable-bias-linear: all linear layers have a bias; "
                   "leave it out");
  if (!gpt.plan_profile.empty() && !gpt.plans_layout)
    problems.add("--plan-profile ", gpt.plan_profile, " goes with --plan auto, which is missing");
}

/// What can be known before there is a GPU.
void check_attention(const Options& options, const TransformerConfig& model, Problems& problems) {
  if (model.attention_kernels == AttentionChoice::automatic) return;
  if (options.device == DeviceOption::cpu)
    problems.add("--attention ", name(model.attention_kernels),
                 " has no meaning with --device cpu; leave it out or use --device cuda");
  const DType dtype = options.bf16 ? DType::bf16 : DType::f32;
  problems.collect([&] {
    attention_choice({dtype, model.head_dim(), model.seq_length, first_mma_capability},
                     model.attention_kernels);
  });
}

/// A preset's MLP stays as wide as it is when only the width of the model is given.
void warn_of_wide_mlp(const CommandLine& command, GptOptions& gpt) {
  constexpr Index usual = 4, most = 8;
  const Index width = gpt.model.hidden_size, ffn = gpt.model.ffn();
  if (command.given("--model") && command.given("--hidden-size") &&
      !command.given("--ffn-hidden-size") && ffn > most * width)
    gpt.warnings.push_back(str("--model ", gpt.preset, " has --ffn-hidden-size ", ffn,
                               ", more than ", most, " times --hidden-size ", width,
                               "; --ffn-hidden-size ", usual * width, " is ", usual, " times it"));
}

const char* style_of(const TransformerConfig& c) {
  if (is_learned(c.position)) return "GPT-2";
  return c.qk_layernorm ? "Qwen3" : c.add_qkv_bias ? "Qwen2" : "Llama";
}

/// The sizes of the presets, for help.
std::vector<std::vector<std::string>> table_of_presets() {
  std::vector<std::vector<std::string>> rows = {{"preset", "layers", "hidden size", "heads",
                                                 "query groups", "MLP", "vocabulary", "sequence",
                                                 "kind", "parameters"}};
  for (const std::string& name : preset_names()) {
    const TransformerConfig c = preset(name);
    const auto millions = static_cast<double>(c.parameter_count()) / 1e6;
    rows.push_back({name, str(c.num_layers), str(c.hidden_size), str(c.num_attention_heads),
                    str(c.kv_heads()), str(c.ffn()), str(c.vocab_size), str(c.seq_length),
                    style_of(c), fmt::format("{:.{}f} M", millions, millions < 10 ? 2 : 0)});
  }
  return rows;
}

void check_stages(const Options& options, const TransformerConfig& model, Problems& problems) {
  const Index stages = options.pipeline_size * options.chunks;
  if (model.num_layers < stages)
    problems.add("--num-layers ", model.num_layers, " are fewer than the ", stages,
                 " stages of --pipeline-model-parallel-size ", options.pipeline_size,
                 " x --num-virtual-stages-per-pipeline-rank ", options.chunks, "; at least ",
                 stages);
}

}  // namespace

void declare_gpt_options(CommandLine& command, Options& options, GptOptions& gpt) {
  command.group("Model");
  const std::size_t first = command.names().size();
  declare_preset(command, gpt);
  declare_model(command, gpt.model);
  take_from_checkpoints(command, first);
  command.next({.uses = OptionUse::beside | OptionUse::model_files});
  command.text(
      "--load-hf", options.checkpoint.load_hf, "DIR",
      "directory of a Hugging Face model (config.json, safetensors): its options and weights, "
      "to begin with where --load has no checkpoint; needs --seq-length");
  declare_execution(command, gpt.model);
  declare_plan(command, gpt);
  command.group("Data");
  command.list("--data-path", gpt.data_path, "[W] PREFIX...",
               "PREFIX of PREFIX.bin and PREFIX.idx (see trireme data prepare); several with "
               "weights: W1 PREFIX1 W2 PREFIX2 ...");
  command.may_differ("--data-path");  // copies on the nodes: the data itself is compared
  command.text("--split", gpt.split, "A,B,C",
               "shares of the data for training, validation and test");
  declare_evaluation(command, options);
  declare_skip_train(command, gpt);
  command.group("Generation", OptionUse::beside);
  command.table("Presets of --model", table_of_presets());
  declare_generation(command, gpt);
}

KeyValues options_of(TransformerConfig model) {
  settle_model(model);
  CommandLine command("", "");
  declare_model(command, model);
  KeyValues all = command.configuration();
  std::erase_if(all, [&](const auto& option) {
    return option.second.empty() ||
           (is_rotary(model.position) && option.first == "--max-position-embeddings");
  });
  return all;
}

TransformerConfig model_of(const KeyValues& options) {
  GptOptions gpt;
  CommandLine command("", "");
  declare_preset(command, gpt);
  declare_model(command, gpt.model);
  for (const std::string& name : command.names())
    command.from_checkpoint(name, CommandLine::FromCheckpoint::always);
  Problems problems;
  command.take(options, "the checkpoint", problems, "the model");
  require(problems.empty(), problems.empty() ? "" : problems.all().front());
  settle_model(gpt.model);
  return gpt.model;
}

std::string model_options(const KeyValues& options) {
  GptOptions gpt;
  CommandLine command("", "");
  declare_preset(command, gpt);
  declare_model(command, gpt.model);
  const std::map<std::string, std::string> values(options.begin(), options.end());
  const auto found = values.find("--model");
  if (found == values.end()) return "";
  std::string all = "--model " + found->second;
  const std::vector<std::string> known = preset_names();
  if (std::find(known.begin(), known.end(), found->second) == known.end()) return all;
  gpt.preset = found->second;
  gpt.model = preset(found->second);
  settle_model(gpt.model);
  for (const auto& [name, of_preset] : command.configuration()) {
    const auto here = values.find(name);
    if (here == values.end() || here->second.empty() || here->second == of_preset) continue;
    const std::string& value = here->second;
    all += " " + name + (value == "true" ? "" : value == "false" ? "=false" : " " + value);
  }
  return all;
}

void check_gpt_options(const CommandLine& command, const Options& options, GptOptions& gpt,
                       Problems& problems) {
  TransformerConfig model = gpt.model;
  if (has_uncertain_positions(command)) model.max_position_embeddings = 0;  // may be rotary
  for (const std::string& problem :
       problems_of(model, options.tensor_size, options.micro_batch_size))
    problems.add(problem);
  check_stages(options, gpt.model, problems);
  warn_of_wide_mlp(command, gpt);
  check_attention(options, gpt.model, problems);
  check_evaluation(command, options, gpt, problems);
  check_generation(command, options, gpt, problems);
  check_meaning(command, gpt, problems);
  settle_model(gpt.model);
}

}  // namespace trireme
