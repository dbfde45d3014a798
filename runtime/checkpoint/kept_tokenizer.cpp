#include "runtime/checkpoint/kept_tokenizer.h"

#include <algorithm>
#include <exception>
#include <filesystem>

#include "trireme/data/sidecar.h"
#include "trireme/data/tokenizer.h"

#include "runtime/core/text/one_line.h"
#include "runtime/interop/model_files.h"

namespace trireme::checkpoint {

TokenizerFindings compare_tokenizers(const Manifest& checkpoint, const KeyValues& identity,
                                     const std::map<std::string, std::string>& files,
                                     const std::string& run) {
  const std::string fact = str(data_facts, tokenizer_fact);
  const auto here = std::find_if(identity.begin(), identity.end(),
                                 [&](const auto& each) { return each.first == fact; });
  const std::string* saved = checkpoint.identity_of(fact);
  const std::string kept = run + '/' + interop::kept_directory, file = kept + "/tokenizer.json";
  std::error_code ignored;
  const bool alike = here == identity.end() || (saved != nullptr && *saved == here->second);
  if (alike || !std::filesystem::exists(file, ignored)) return {};
  TokenizerFindings found;
  try {
    const std::string hash = data::Tokenizer::load(file).hash();
    const auto said_by = files.find(fact);
    if (saved == nullptr && hash != here->second)
      found.difference = str("data: ", tokenizer_fact, " is ", here->second, " here",
                             said_by == files.end() ? "" : str(" (", said_by->second, ")"), " and ",
                             hash, " in ", file, ", which is that of the model");
    if (hash != here->second && (saved == nullptr || *saved == hash))
      found.hint = "; the tokens must be those of --tokenizer " + kept;
  } catch (const std::exception& error) {
    if (saved == nullptr)
      found.doubt =
          one_line(str("the tokenizer of the model cannot be compared with that of this "
                       "job: ",
                       error.what()));
  }
  return found;
}

}  // namespace trireme::checkpoint
