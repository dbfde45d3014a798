// The words of PROGRAM as trireme verify starts it: a few steps, files in a directory of its own,
// and nothing of what a run of the user reads or writes besides its data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/core/mesh_shape.h"

#include "launch/supervisor/decide/command_words.h"

namespace trireme::verify {

using supervisor::Words;

/// What the program says of itself on a number of ranks (--check-layout).
struct Facts {
  Index ranks = 0;
  bool legal = false;
  std::vector<std::string> problems = {};  // where it is not
  Index data = 1, pipeline = 1, tensor = 1;
  Index rank_bytes = 0;   // 0: it has no Trainer
  Index state_bytes = 0;  // the part that is parameters, gradients and state of the optimizer
  std::map<std::string, std::string> configuration = {};

  MeshShape mesh() const {
    return {static_cast<int>(data), static_cast<int>(pipeline), static_cast<int>(tensor)};
  }
  /// The effective value of an option; empty: the program has none of this name.
  std::string option(const std::string& name) const;
  Index number(const std::string& name) const;  // 1 where there is none
  bool bf16() const { return option("--bf16") == "true"; }
};
/// Parses what the program printed. Throws: Error when there is no line about `ranks`.
Facts facts_in(const std::string& printed, Index ranks);

/// Returns what a job that failed has said: its own messages, else its last lines.
std::string reason_in(const std::string& output);

/// `words` without options that save, load, report or end a job, and those of the learning rate's
/// schedule. `config`: a file for what is left of --config FILE. Throws: Error.
Words plain_words(const Words& words, const std::string& config);
/// The lines of a configuration file without those options. Returns the text as it is when it has a
/// mistake: the program reports it.
std::string plain_config(const std::string& text);

/// A job that verify starts.
struct JobWords {
  Words program;            // plain
  std::string folder = {};  // where it saves
  std::string load = {};    // where another job has saved; it resumes from step 1
  bool compares_replicas = false;
};
inline constexpr Index steps = 2;
Words words_of(const JobWords& job);

/// The words, and their --config, without options; "--bf16". `config`: a file for what is left.
Words without_options(const Words& words, const Words& names, const std::string& config);
/// The words of the same training on one rank.
Words one_rank_words(const Words& words, const std::string& config);

/// Files of a job in its folder.
std::string saved_in(const std::string& folder);             // steps
std::string step_in(const std::string& folder, Index step);  // one of them
std::string metrics_in(const std::string& folder);
std::string dump_in(const std::string& folder);  // prefix

}  // namespace trireme::verify
