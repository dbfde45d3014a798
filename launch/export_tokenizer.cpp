#include "launch/export_tokenizer.h"

#include <filesystem>
#include <iostream>

#include "trireme/core/error.h"
#include "trireme/data/sidecar.h"
#include "trireme/data/tokenizer.h"

#include "runtime/interop/hf_files.h"
#include "runtime/interop/model_files.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "tokenizer.json";

std::string directory_of(const std::string& path) {
  const fs::path whole = fs::absolute(path);
  if (!fs::is_regular_file(whole)) return path;
  require(whole.filename() == file_name, "--tokenizer ", path, ": the file is not named ",
          file_name, "; give such a file, or the directory that has it");
  return whole.parent_path().string();
}

/// Null: the run does not say.
const std::string* tokenizer_of(const OpenedStep& step) {
  return step.manifest.identity_of(str(data_facts, tokenizer_fact));
}

/// The step's data was not known, or was that of `hash`.
void check_kept(const std::string& path, const std::string& hash, const std::string& run,
                bool is_known) {
  const std::string kept = run + '/' + interop::kept_directory + '/' + file_name;
  if (!fs::exists(kept)) return;
  std::string other;
  try {
    other = data::Tokenizer::load(kept).hash();
  } catch (const Error& error) {
    require(is_known, "--tokenizer ", path, " cannot be compared with the one that the run began ",
            "with: ", error.what());
    return;
  }
  require(other == hash, "--tokenizer ", path, " is ", hash, ", but the run began with tokenizer ",
          other, " (", kept, "); leave --tokenizer out to export that one");
}

}  // namespace

interop::OutputTokenizer tokenizer_for(const std::string& path, const OpenedStep& step,
                                       const std::string& run, Index vocabulary) {
  const std::string directory = directory_of(path);
  const data::Tokenizer tokenizer = data::Tokenizer::load(directory);
  for (const std::string& warning : tokenizer.warnings())
    std::cerr << "trireme: warning: " << warning << '\n';
  const std::string hash = tokenizer.hash();
  const std::string* trained = tokenizer_of(step);
  require(trained == nullptr || *trained != Sidecar::bytes, "--tokenizer ", path, " is ", hash,
          ", but the tokens of the data of ", step.directory, " are bytes; leave it out");
  require(trained == nullptr || *trained == hash, "--tokenizer ", path, " is ", hash,
          ", but the tokens of the data of ", step.directory, " are those of tokenizer ",
          trained == nullptr ? "" : *trained, "; give that one");
  check_kept(path, hash, run, trained != nullptr);
  require(tokenizer.vocabulary() <= vocabulary, "--tokenizer ", path, " has ",
          tokenizer.vocabulary(), " tokens, more than the ", vocabulary, " of the model of ",
          step.directory, "; give the one that made its data");
  interop::tokenizer_files(directory);  // sees whether they can be copied
  return {directory, tokenizer.bos(), tokenizer.eod()};
}

std::string advice_without_tokenizer(const OpenedStep& step) {
  const std::string* trained = tokenizer_of(step);
  if (trained != nullptr && *trained == Sidecar::bytes)
    return "no tokenizer was written: tokens of this run are bytes, which no tokenizer.json has";
  return str("no tokenizer was written, as the run keeps none",
             trained == nullptr ? "" : str("; its data has tokens of tokenizer ", *trained),
             "; programs that make tokens of text need one: give --tokenizer DIR");
}

}  // namespace trireme
