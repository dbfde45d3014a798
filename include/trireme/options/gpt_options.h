// Options of programs that train a transformer on token files: the model, the data, and text
// generation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/data/sidecar.h"
#include "trireme/data/source.h"
#include "trireme/data/token_sweep.h"
#include "trireme/models/transformer_config.h"
#include "trireme/options/options.h"

namespace trireme {

namespace data {
class TextEncoder;
}

struct GptOptions {
  std::string preset = "tiny";
  TransformerConfig model = trireme::preset("tiny");
  std::vector<std::string> data_path;  // PREFIX, or w1 PREFIX1 w2 PREFIX2 ...
  std::string split = "969,30,1";      // train, valid, test
  bool plans_layout = false;           // --plan auto (train/layout_choice.h)
  std::string plan_profile;            // its --plan-profile; empty: of the GPU in use
  bool skip_train = false;             // evaluate all of the validation part, and train nothing
  Index generate = 0;                  // tokens after training
  std::string prompt = "The ";
  std::string prompts;    // file of them, in place of `prompt`
  std::string tokenizer;  // path; "": tokens are bytes
  double temperature = 0.8;
  Index top_k = 0;
  double top_p = 1;
  std::string output;                      // file of JSON lines
  std::vector<std::string> warnings = {};  // found by check_gpt_options
};

/// Model, data, evaluation and generation.
void declare_gpt_options(CommandLine& command, Options& options, GptOptions& gpt);

/// Sets --vocab-size, where it is not given, to that of the sidecars of --data-path, unless the
/// model is that of a checkpoint or of --load-hf. Sets --train-iters to 0 with --skip-train, and
/// for a job that only generates: one with --load or --load-hf and --generate, but neither
/// --train-iters nor --data-path. Sets Options::forward_only for jobs that evaluate or generate,
/// and neither train nor save. Call before derive_defaults.
void settle_gpt_options(const CommandLine& command, Options& options, GptOptions& gpt);

/// Reports what is wrong with the model on this mesh, and with generation. First replaces zeros in
/// the model by the defaults they mean, so that the effective configuration shows these.
void check_gpt_options(const CommandLine& command, const Options& options, GptOptions& gpt,
                       Problems& problems);

/// Returns those options of a job that define its model: "--model tiny --num-layers 2"; "" if there
/// is no --model.
std::string model_options(const KeyValues& options);

/// The options that describe this model, without --model.
KeyValues options_of(TransformerConfig model);
/// The model of these options, which may be those of a checkpoint. Throws: Error that names one.
TransformerConfig model_of(const KeyValues& options);

struct GptData {
  std::unique_ptr<DataSource> train;
  std::unique_ptr<DataSource> valid;                 // null unless there are evaluations
  std::vector<SweptPart> swept;                      // with --skip-train: what is evaluated
  std::shared_ptr<const data::TextEncoder> encoder;  // with --generate: from --tokenizer, or bytes
  UsedTokenizer tokenizer;  // tokenizer of the data, or of `encoder` where that is not known
  std::vector<std::string> description, warnings;  // lines for the log
};
/// Opens the files of --data-path and --tokenizer, and adds what is wrong with them to `problems`:
/// the data, --tokenizer and the model of --load-hf must have one tokenizer. Opens no data for a
/// job that neither trains nor saves, and nothing for a plan.
GptData open_gpt_data(const Options& options, const GptOptions& gpt, Problems& problems);

/// Logs, on rank 0, the model, the data, and what is legal but probably not intended.
void describe_gpt(const Log& log, const GptOptions& gpt, const GptData& data);

}  // namespace trireme
