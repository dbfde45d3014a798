#include "runtime/checkpoint/identity.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "trireme/core/version.h"
#include "trireme/data/sidecar.h"
#include "trireme/options/gpt_options.h"

#include "runtime/checkpoint/tensors.h"
#include "runtime/options/known_options.h"

namespace trireme::checkpoint {
namespace {

const std::string model_facts = "model/", training_facts = "training/";
const std::string optimizer_fact = training_facts + "--optimizer";
const std::string fact_of_tokenizer = str(data_facts, tokenizer_fact);

bool in_scope(const std::string& fact, LoadScope scope) {
  switch (scope) {
    case LoadScope::everything:
      return true;
    case LoadScope::without_optimizer:
      return fact != optimizer_fact;
    case LoadScope::parameters:
      return fact.starts_with(model_facts) || fact == fact_of_tokenizer;
  }
  return true;
}

/// "--num-layers", "data: train tokens"
std::string readable(const std::string& fact) {
  if (fact.starts_with(data_facts))
    return "data: " + fact.substr(std::string_view(data_facts).size());
  return fact.substr(fact.find('/') + 1);
}

/// The value in the words of the option; checkpoints have other words for the kinds of positions.
std::string readable(const std::string& fact, const std::string& value) {
  if (fact != model_facts + "--position-embedding-type") return value;
  if (value == "learned") return name(PositionKind::learned);
  return value == "rotary" ? name(PositionKind::rotary) : value;
}

/// Facts that checkpoints of the first releases do not have, and data without a sidecar.
bool may_be_missing(const std::string& fact) {
  return fact == fact_of_tokenizer || (fact.starts_with(data_facts) && fact.ends_with(" content"));
}

std::string form(const Manifest::Tensor& tensor) { return str(tensor.dtype, " ", tensor.global); }

/// Whether one can be read as the other: parameters that are frozen may be in bf16.
bool alike(const Manifest::Tensor& a, const Manifest::Tensor& b) {
  const auto is_real = [](DType type) { return type == DType::f32 || type == DType::bf16; };
  return a.global == b.global && (a.dtype == b.dtype || (is_real(a.dtype) && is_real(b.dtype)));
}

void compare_facts(const Manifest& checkpoint, const KeyValues& identity, LoadScope scope,
                   const std::map<std::string, std::string>& files, std::vector<std::string>& out) {
  const auto file_of = [&](const std::string& fact) {
    const auto found = files.find(fact);
    return found == files.end() ? "" : "; the file is " + found->second;
  };
  std::set<std::string> here;
  for (const auto& [name, value] : identity) {
    here.insert(name);
    if (!in_scope(name, scope)) continue;
    const std::string* saved = checkpoint.identity_of(name);
    if (saved == nullptr && may_be_missing(name)) continue;
    if (saved == nullptr)
      out.push_back(fmt::format("{} is {} here; the checkpoint says nothing of it", readable(name),
                                readable(name, value)));
    else if (*saved != value)
      out.push_back(fmt::format("{} is {} here and {} in the checkpoint{}", readable(name),
                                readable(name, value), readable(name, *saved), file_of(name)));
  }
  for (const auto& [name, value] : checkpoint.identity)
    if (here.count(name) == 0 && in_scope(name, scope) && name != skipped_samples_fact &&
        !name.starts_with(origin_facts) && name != fact_of_tokenizer)
      out.push_back(fmt::format("{} is {} in the checkpoint; this job has none", readable(name),
                                readable(name, value)));
}

/// Names that start with `prefix`, without it.
std::map<std::string, const Manifest::Tensor*> tensors_under(const Manifest& manifest,
                                                             const std::string& prefix) {
  std::map<std::string, const Manifest::Tensor*> all;
  for (const Manifest::Tensor& tensor : manifest.tensors)
    if (tensor.name.starts_with(prefix)) all[tensor.name.substr(prefix.size())] = &tensor;
  return all;
}

/// Adds a sentence per difference to `out`, and the names below `prefix` to `differing`; leaves out
/// what is in there already.
void compare_tensors(const Manifest& checkpoint, const Manifest& job, const std::string& prefix,
                     std::set<std::string>& differing, std::vector<std::string>& out) {
  const auto here = tensors_under(job, prefix), there = tensors_under(checkpoint, prefix);
  const std::set<std::string> known = differing;
  const auto add = [&](const std::string& name, const std::string& sentence) {
    differing.insert(name);
    if (known.count(name) == 0) out.push_back("tensor " + prefix + name + " " + sentence);
  };
  for (const auto& [name, tensor] : here) {
    const auto saved = there.find(name);
    if (saved == there.end())
      add(name, form(*tensor) + " is not in the checkpoint");
    else if (prefix == parameters_prefix ? !alike(*saved->second, *tensor)
                                         : form(*saved->second) != form(*tensor))
      add(name, "is " + form(*tensor) + " here and " + form(*saved->second) + " in the checkpoint");
  }
  for (const auto& [name, tensor] : there)
    if (here.count(name) == 0) add(name, form(*tensor) + " of the checkpoint is not in this model");
}

/// "first_moment", … of every tensor below "optimizer/".
std::set<std::string> state_kinds(const Manifest& manifest) {
  std::set<std::string> kinds;
  for (const auto& [name, tensor] : tensors_under(manifest, optimizer_prefix))
    kinds.insert(name.substr(0, name.find('/')));
  return kinds;
}

/// Parameters of both that have this kind of state in `has` and none in `lacks`, where they are
/// frozen.
std::set<std::string> frozen_in(const Manifest& lacks, const Manifest& has,
                                const std::string& kind) {
  const auto parameters = tensors_under(lacks, parameters_prefix);
  const auto without = tensors_under(lacks, optimizer_prefix + kind + "/");
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors_under(has, optimizer_prefix + kind + "/"))
    if (without.count(name) == 0 && parameters.count(name) > 0) names.insert(name);
  return names;
}

/// A kind of state that one side lacks is one difference, not one per tensor. State of what is
/// frozen here has no use. What was frozen in the checkpoint could begin at 0 only together with
/// all other state: updates are corrected by their number.
void compare_state(const Manifest& checkpoint, const Manifest& job,
                   const std::set<std::string>& differing, std::vector<std::string>& out) {
  const std::set<std::string> here = state_kinds(job), there = state_kinds(checkpoint);
  std::set<std::string> thawed;
  for (const std::string& kind : here) {
    if (there.count(kind) == 0) {
      out.push_back("the optimizer's " + kind + " is not in the checkpoint");
      continue;
    }
    std::set<std::string> known = frozen_in(job, checkpoint, kind);
    thawed.merge(frozen_in(checkpoint, job, kind));
    known.insert(thawed.begin(), thawed.end());
    known.insert(differing.begin(), differing.end());
    compare_tensors(checkpoint, job, optimizer_prefix + kind + "/", known, out);
  }
  if (!thawed.empty())
    out.push_back(fmt::format(
        "the checkpoint has no optimizer state of {}{}, frozen when it was saved: give "
        "--freeze again, or --no-load-optim, which lets the state of all begin at 0",
        *thawed.begin(), thawed.size() > 1 ? fmt::format(" and {} more", thawed.size() - 1) : ""));
  for (const std::string& kind : there)
    if (here.count(kind) == 0)
      out.push_back("the optimizer's " + kind + " of the checkpoint has no use in this job");
}

/// A fact about the model has another value, or is missing.
bool differs_in_model(const Manifest& checkpoint, const KeyValues& identity) {
  return std::any_of(identity.begin(), identity.end(), [&](const auto& fact) {
    const std::string* saved = checkpoint.identity_of(fact.first);
    return fact.first.starts_with(model_facts) && (saved == nullptr || *saved != fact.second);
  });
}

/// Whether one of these sentences is about what the job trains on.
bool differs_in_data(const std::vector<std::string>& sentences) {
  const std::string of_data = readable(data_facts), of_tokenizer = readable(fact_of_tokenizer);
  return std::any_of(sentences.begin(), sentences.end(), [&](const std::string& sentence) {
    return sentence.starts_with(of_data) && !sentence.starts_with(of_tokenizer);
  });
}

/// Keeps the first few of many sentences.
void shorten(std::vector<std::string>& sentences) {
  constexpr std::size_t most = 5;
  if (sentences.size() <= most + 1) return;
  const std::size_t more = sentences.size() - most;
  sentences.resize(most);
  sentences.push_back(str("and ", more, " more tensors differ"));
}

}  // namespace

LoadScope load_scope(const CheckpointOptions& options) {
  if (options.finetune) return LoadScope::parameters;
  return options.load_optimizer ? LoadScope::everything : LoadScope::without_optimizer;
}

KeyValues model_identity(const KeyValues& model) {
  KeyValues all;
  for (const auto& [name, value] : model) all.emplace_back(model_facts + name, value);
  return all;
}

KeyValues with_skipped(KeyValues identity, const data::SkippedSamples& skipped) {
  if (!skipped.empty()) identity.emplace_back(skipped_samples_fact, skipped.text());
  return identity;
}

KeyValues job_identity(const KeyValues& model, const Options& options, const DataSource& train) {
  KeyValues all = model_identity(model);
  all.emplace_back(training_facts + "--seed", std::to_string(options.seed));
  all.emplace_back(optimizer_fact, name(options.optimizer.kind));
  for (const auto& [name, value] : train.identity()) all.emplace_back(data_facts + name, value);
  return all;
}

KeyValues job_identity(const KeyValues& model, const UsedTokenizer& tokenizer) {
  KeyValues all = model_identity(model);
  if (!tokenizer.hash.empty()) all.emplace_back(fact_of_tokenizer, tokenizer.hash);
  return all;
}

std::map<std::string, std::string> files_of(const UsedTokenizer& tokenizer) {
  if (tokenizer.file.empty()) return {};
  return {{fact_of_tokenizer, tokenizer.file}};
}

std::map<std::string, std::string> files_of(const DataSource& train) {
  std::map<std::string, std::string> files;
  for (const auto& [name, value] : train.identity())
    if (std::string file = train.file_of(name); !file.empty()) files[data_facts + name] = file;
  return files;
}

std::vector<std::string> differences(const Manifest& checkpoint, const Manifest& job,
                                     const KeyValues& identity, LoadScope scope,
                                     const std::map<std::string, std::string>& files) {
  std::vector<std::string> all, tensors;
  compare_facts(checkpoint, identity, scope, files, all);
  if (differs_in_data(all))
    all.push_back(
        "this is other data than the checkpoint was trained on: prepare that again, or "
        "name it by --data-path; --finetune trains its weights on other data");
  std::set<std::string> differing;
  compare_tensors(checkpoint, job, parameters_prefix, differing, tensors);
  const bool other_model = !tensors.empty() || differs_in_model(checkpoint, identity);
  shorten(tensors);
  all.insert(all.end(), tensors.begin(), tensors.end());
  if (scope == LoadScope::everything) compare_state(checkpoint, job, differing, all);
  if (scope != LoadScope::parameters) {
    std::set<std::string> none;
    compare_tensors(checkpoint, job, scalars_prefix, none, all);
  }
  if (const std::string model = model_options(checkpoint.options); other_model && !model.empty())
    all.insert(all.begin(), "the checkpoint's model is: " + model +
                                " ('trireme checkpoint show' has all options); "
                                "--use-checkpoint-args takes it from there");
  return all;
}

std::string describe_rounded(const Manifest& checkpoint, const Manifest& job) {
  const auto there = tensors_under(checkpoint, parameters_prefix);
  std::string first;
  Index rounded = 0;
  bool trains = false;
  for (const auto& [name, tensor] : tensors_under(job, parameters_prefix)) {
    trains = trains || tensor->dtype == DType::f32;  // masters
    const auto saved = there.find(name);
    if (tensor->dtype == DType::f32 || saved == there.end() || saved->second->dtype != DType::f32)
      continue;
    if (++rounded == 1) first = tensor->name;
  }
  if (!trains || rounded == 0) return "";
  return fmt::format("{}{} rounded from fp32 to bf16, as frozen parts are kept and saved", first,
                     rounded == 1 ? " is"
                                  : fmt::format(" and {} more tensor{} are", rounded - 1,
                                                rounded == 2 ? "" : "s"));
}

std::string option_differences(const KeyValues& now, const KeyValues& then) {
  const KnownOptions known;
  const std::map<std::string, std::string> saved(then.begin(), then.end());
  const auto shown = [](const std::string& value) { return value.empty() ? "-" : value; };
  std::string all;
  for (const auto& [name, value] : now) {
    const auto was = saved.find(name);
    // The options of a file are compared themselves.
    const bool matters = !known.has(name, OptionUse::beside) && name != "--config";
    if (!matters || was == saved.end() || was->second == value) continue;
    all += fmt::format("{}{} {} (was {})", all.empty() ? "" : ", ", name, shown(value),
                       shown(was->second));
  }
  return all;
}

KeyValues software_versions(const std::string& device) {
  const std::string free = " free";  // what is free just now is left out
  const bool says_free = device.ends_with(free) && device.find(',') != std::string::npos;
  return {{"trireme", version()},
          {"HDF5", TRIREME_HDF5_VERSION},
          {"compiler", __VERSION__},
          {"device", says_free ? device.substr(0, device.rfind(',')) : device}};
}

}  // namespace trireme::checkpoint
