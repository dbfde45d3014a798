// TrainingTask: a model and how it is trained, as options of train_gpt, for which a layout is
// sought. Which layouts are legal is said by the checks of train_gpt itself.
//
// Not installed; modules above may include it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/options/gpt_options.h"

#include "runtime/cost/planned_layout.h"
#include "runtime/layouts/search/layout_text.h"

namespace trireme::layouts {

/// What a layout of ranks of unequal speed has in addition; empty: equal ranks.
struct UnequalParts {
  DataShares shares;           // micro-batches of data ranks
  std::vector<double> speeds;  // one per pipeline rank
  DataShares optimizer = {};   // one per data rank
};

/// What files of a model say of it, which the words name by `option`.
struct ModelOfFiles {
  KeyValues options;
  std::string origin, option;  // "DIR/config.json", "--load-hf"
};

/// The option that sets what a word of layouts says; null: none does.
const OptionDefinition* option_of(const CommandLine& command, const std::string& word);

/// Layouts are compared by pieces of a model, of which all blocks are trained alike.
inline constexpr const char* no_plan_of_frozen_parts =
    "--freeze: layouts are searched for models of which all parts are trained; leave it out, or "
    "see what one layout needs with it by train_gpt --plan-only";

class TrainingTask {
 public:
  /// `words`: of the command line of train_gpt, such as --config FILE. `bf16`: what holds where
  /// they, and the file, do not say. Adds what is wrong with them to `problems`.
  TrainingTask(const std::vector<std::string>& words, Problems& problems, bool bf16 = true,
               const ModelOfFiles& model = {});
  /// Takes options that are parsed and settled. `command` outlives the task.
  TrainingTask(const CommandLine& command, const Options& options, const GptOptions& gpt);
  TrainingTask(const TrainingTask&) = delete;
  TrainingTask& operator=(const TrainingTask&) = delete;

  const TransformerConfig& model() const { return gpt_.model; }
  const Options& options() const { return options_; }
  Index tokens_per_step() const { return options_.global_batch_size * gpt_.model.seq_length; }
  /// Whether this option (canonical name) was among the words, or in the file.
  bool given(const std::string& option) const { return command_.given(option); }
  /// An option with one of these uses that was among them; empty: none was.
  std::string given_with(OptionUse any) const;
  /// `more`, with the words of a layout that the task was given: they stay as they are. The options
  /// that `more` has other values for are added to `contradicted`.
  LayoutPins pins_with(const LayoutPins& more, std::vector<std::string>& contradicted) const;

  /// Why train_gpt would refuse this layout; empty: it would train.
  std::vector<std::string> problems_of(const Layout& layout, const UnequalParts& parts = {}) const;
  cost::Candidate candidate(const Layout& layout, const UnequalParts& parts = {}) const;
  /// What to add to the words for this layout.
  std::vector<std::string> words_of(const Layout& layout, const UnequalParts& parts = {}) const;

 private:
  Layout layout_of_options() const;
  Options options_of(const Layout& layout, const UnequalParts& parts) const;
  GptOptions gpt_of(const Layout& layout) const;

  Options options_;
  GptOptions gpt_;
  TrainingSpec spec_;                       // what all layouts share: a search asks for very many
  const std::unique_ptr<CommandLine> own_;  // made from words
  const CommandLine& command_;
  bool adds_bf16_ = false;
};

}  // namespace trireme::layouts
