// What a checkpoint and the job that loads it must have in common, and every way in which they
// differ. Pure: no files, no communication.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/data/sidecar.h"
#include "trireme/data/source.h"
#include "trireme/options/options.h"

#include "runtime/data/skipped_samples.h"
#include "runtime/store/manifest.h"

namespace trireme::checkpoint {

/// What a job leaves out of its data is in the identity of its checkpoints. A job that resumes
/// takes it over, so it need not be the same.
inline constexpr const char* skipped_samples_fact = "data/skipped samples";
KeyValues with_skipped(KeyValues identity, const data::SkippedSamples& skipped);

/// Names of facts about the files of --load-hf with which a run began begin with it. A job that
/// resumes needs none of them.
inline constexpr const char* origin_facts = "origin/";

/// How much of a checkpoint a job loads: all; without optimizer state (--no-load-optim); parameters
/// alone (--finetune).
enum class LoadScope { everything, without_optimizer, parameters };
LoadScope load_scope(const CheckpointOptions& options);

/// Returns the properties of a model, with names that begin with "model/".
KeyValues model_identity(const KeyValues& model);
/// Returns the properties of a job that trains, with names that begin with "model/", "training/" or
/// "data/".
KeyValues job_identity(const KeyValues& model, const Options& options, const DataSource& train);

/// Returns those of a job that does not train: what they say of data is only the tokenizer, where
/// it is known.
KeyValues job_identity(const KeyValues& model, const UsedTokenizer& tokenizer);

/// Returns the files that entries about the data describe, by the name of the entry in
/// job_identity().
std::map<std::string, std::string> files_of(const DataSource& train);
std::map<std::string, std::string> files_of(const UsedTokenizer& tokenizer);

/// Returns every difference that makes loading impossible, one sentence each. `job`: the tensors of
/// the job; their pieces are not used.
std::vector<std::string> differences(const Manifest& checkpoint, const Manifest& job,
                                     const KeyValues& identity, LoadScope scope,
                                     const std::map<std::string, std::string>& files = {});

/// Says which frozen parameters loading rounds: "parameters/w is rounded from fp32 to bf16, …".
/// Returns "" where it rounds none, and for a job that trains nothing.
std::string describe_rounded(const Manifest& checkpoint, const Manifest& job);

/// Returns "--lr 0.001 (was 0.003), --tp 2 (was 1)": the options whose value differs from that of
/// the run that saved, except those that only say where files are or what is printed.
std::string option_differences(const KeyValues& now, const KeyValues& then);

/// Returns what a manifest says of the programs that made the file.
KeyValues software_versions(const std::string& device);

}  // namespace trireme::checkpoint
