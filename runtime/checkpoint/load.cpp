#include "runtime/checkpoint/load.h"

#include <algorithm>
#include <exception>
#include <filesystem>

#include <fmt/format.h>

#include "trireme/comm/agree.h"
#include "trireme/data/sidecar.h"
#include "trireme/data/tokenizer.h"

#include "runtime/checkpoint/messages.h"
#include "runtime/checkpoint/read.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/checkpoint/tiers/time_line.h"
#include "runtime/comm/page_of.h"
#include "runtime/core/show_bytes.h"
#include "runtime/core/text/one_line.h"
#include "runtime/interop/model_files.h"
#include "runtime/store/read/reader.h"
#include "runtime/store/steps.h"

namespace trireme::checkpoint {
namespace {

/// A damaged step. All ranks know of it.
class BadStep : public Error {
 public:
  using Error::Error;
};

const CheckpointOptions& options_of(const LoadTarget& t) { return t.context.options().checkpoint; }
const Host& host_of(const LoadTarget& t) { return t.context.host(); }
std::string step_path(const LoadTarget& t, Index step) {
  return options_of(t).load + "/" + step_name(step);
}

/// Throws: ConfigurationError on all ranks, when rank 0 has found problems (a line each).
void stop_for(const LoadTarget& t, const std::string& of_root) {
  Problems problems;
  problems.add_lines("", broadcast_text(host_of(t), of_root));
  agree_on(host_of(t), problems);
}

/// On rank 0: the steps of --load to try, newest first. `snapshots`: there are some in memory.
/// Throws: Error with the reason if there is none and one is required.
std::vector<Index> find_candidates(const LoadTarget& t, bool snapshots) {
  const CheckpointOptions& o = options_of(t);
  const bool there = std::filesystem::is_directory(o.load);
  require(there || saves_where_it_loads(o), "--load ", o.load,
          " is no directory; leave --load out to start from scratch");
  std::vector<Index> steps;
  if (there)
    for (const CommittedStep& step : list_steps(o.load)) steps.push_back(step.step);
  if (o.ckpt_step >= 0) {
    std::string others;
    for (const Index step : steps) others += str(others.empty() ? "" : ", ", step);
    require(std::find(steps.begin(), steps.end(), o.ckpt_step) != steps.end(), "--ckpt-step ",
            o.ckpt_step, ": --load ", o.load, " has no such step; it has ",
            others.empty() ? "none" : others);
    return {o.ckpt_step};
  }
  require(!steps.empty() || snapshots || !o.exit_on_missing_checkpoint, "--load ", o.load,
          " has no checkpoint, and --exit-on-missing-checkpoint is given");
  return steps;
}

/// Collective. The same on every rank.
std::vector<Index> agree_on_candidates(const LoadTarget& t, bool snapshots) {
  std::vector<Index> steps;
  std::string problem;
  Packer packed;
  if (host_of(t).rank() == 0) try {
      for (const Index step : find_candidates(t, snapshots)) packed.put(step);
    } catch (const std::exception& error) {
      problem = error.what();
    }
  stop_for(t, problem);
  const std::string bytes = broadcast_text(host_of(t), packed.bytes());
  for (Unpacker in(bytes); !in.at_end();) steps.push_back(in.number());
  return steps;
}

/// Continues a difference of the data: another --split has other parts of the same files. Or "".
std::string split_difference(const LoadTarget& t, const Manifest& checkpoint) {
  const auto split_of = [](const KeyValues& options) {
    const auto found = std::find_if(options.begin(), options.end(),
                                    [](const auto& option) { return option.first == "--split"; });
    return found == options.end() ? "" : found->second;
  };
  const std::string here = split_of(t.context.configuration()),
                    saved = split_of(checkpoint.options);
  if (here.empty() || saved.empty() || here == saved) return "";
  return str("; --split is ", here, " here and was ", saved);
}

/// Continues a line of differences(). Or "".
std::string hint_for(const LoadTarget& t, const Manifest& checkpoint, const std::string& line,
                     const TokenizerFindings& tokenizers) {
  if (line.starts_with(str("data: ", tokenizer_fact))) return tokenizers.hint;
  return line.starts_with("data: ") ? split_difference(t, checkpoint) : "";
}

/// What keeps the job from loading `checkpoint`, a sentence each. Warns where that is not known.
std::vector<std::string> all_differences(const LoadTarget& t, const Manifest& checkpoint) {
  std::vector<std::string> all = differences(checkpoint, t.catalog, t.identity, t.scope, t.files);
  const TokenizerFindings tokenizers =
      compare_tokenizers(checkpoint, t.identity, t.files, options_of(t).load);
  if (!tokenizers.difference.empty()) all.push_back(tokenizers.difference);
  for (std::string& line : all) line += hint_for(t, checkpoint, line, tokenizers);
  if (!tokenizers.doubt.empty())
    t.context.log().warning(str("--load ", options_of(t).load, ": ", tokenizers.doubt));
  return all;
}

/// Collective. Rank 0 reads the manifest of `step` and compares it with the job. Throws: BadStep
/// when it cannot be read, ConfigurationError when it is another job's.
Manifest agree_on_manifest(const LoadTarget& t, Index step) {
  std::string text, different;
  const std::string failure = on_root(host_of(t), [&] {
    const Manifest manifest = read_manifest(step_path(t, step));
    require(manifest.step == step, "its manifest is that of step ", manifest.step);
    text = to_text(manifest);
    for (const std::string& line : all_differences(t, manifest))
      different += str("--load ", step_path(t, step), ": ", line, "\n");
  });
  if (!failure.empty()) throw BadStep(failure);
  stop_for(t, different);
  return parse_manifest(broadcast_text(host_of(t), text));
}

ReadReport read_into_place(const LoadTarget& t, const Manifest& manifest, SavedScalars& scalars) {
  const LoadScope scope = t.scope;
  std::vector<Wanted> also;
  const auto add = [&](const std::vector<Wanted>& more) {
    also.insert(also.end(), more.begin(), more.end());
  };
  if (scope == LoadScope::everything) add(wanted_state(t.flat, *t.optimizer));
  if (scope != LoadScope::parameters && host_of(t).rank() == 0) add(wanted_scalars(scalars));
  observe::StatusPage no_page;
  observe::StatusPage& page = comm::page_of(host_of(t).mesh, no_page);
  StepSource source(step_path(t, manifest.step), manifest);
  return read_parameters(t.context.stream(), source, t.flat, also,
                         reading_threads(t.context.options()), [&page] { page.progressed(); });
}

/// Collective. The first message of any rank, and how many more there are; "" when there is none.
std::string first_failure(const LoadTarget& t, const std::string& mine) {
  Index failed = mine.empty() ? 0 : 1;
  host_of(t).all_reduce({&failed, 1, DType::i64}, Reduction::sum);
  if (failed == 0) return "";
  const std::vector<std::string> all = gather_strings(host_of(t), mine);
  const auto first = std::find_if(all.begin(), all.end(), [](auto& text) { return !text.empty(); });
  return str(*first, failed > 1 ? str(" (seen by ", failed, " ranks)") : "");
}

/// A step to try, and where it is.
struct Place {
  Index step;
  std::optional<SnapshotStep> snapshot;  // in memory and on disks of the nodes; nothing: in --load
};

/// Collective. The same on every rank: newest first; of one step the snapshot first.
std::vector<Place> places_to_try(const LoadTarget& t) {
  std::vector<Place> places;
  if (t.memory != nullptr && options_of(t).ckpt_step < 0)
    for (const SnapshotStep& step : t.memory->complete_steps(agree_on_time_line(t.context)))
      places.push_back({step.step, step});
  for (const Index step : agree_on_candidates(t, !places.empty()))
    places.push_back({step, std::nullopt});
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.step > b.step; });
  return places;
}

void gather_over_data(const LoadTarget& t) {
  Communicator& data = t.context.mesh().group(Role::shard);
  gather_parameters(t.flat, data, t.context.stream());
  if (t.scope == LoadScope::everything)
    gather_state(t.flat, *t.optimizer, data, t.context.stream());
}

/// Collective. The bytes of all ranks, and the milliseconds of the slowest.
std::pair<Index, double> over_ranks(const LoadTarget& t, const ReadReport& mine) {
  Index bytes = mine.bytes_read;
  double ms = mine.ms;
  host_of(t).all_reduce({&bytes, 1, DType::i64}, Reduction::sum);
  host_of(t).all_reduce({&ms, 1, DType::f64}, Reduction::max);
  return {bytes, ms};
}

double rate(Index bytes, double ms) {
  return static_cast<double>(bytes) / std::max(ms, 1e-3) / 1e6;
}

void report(const LoadTarget& t, const Manifest& manifest, const ReadReport& mine) {
  const auto [bytes, ms] = over_ranks(t, mine);
  const Log& log = t.context.log();
  log.info(fmt::format("loaded step {} of {}, saved {} by {}: {} read in {:.0f} ms, {:.2f} GB/s",
                       manifest.step, options_of(t).load, manifest.created, manifest.layout,
                       show_bytes(bytes), ms, rate(bytes, ms)));
  if (host_of(t).rank() == 0)
    if (const std::string rounded = describe_rounded(manifest, t.catalog); !rounded.empty())
      log.info("--freeze: " + rounded);
  if (t.context.options().train_iters == 0) return;  // options of training have no meaning
  const std::string changed = option_differences(t.context.configuration(), manifest.options);
  if (!changed.empty()) log.info("differs from the checkpoint's run: " + changed);
}

/// Collective. Throws: BadStep; the content of the flat buffers is then undefined.
Loaded load_step(const LoadTarget& t, Index step) {
  const Manifest manifest = agree_on_manifest(t, step);
  SavedScalars scalars;
  ReadReport read;
  std::string failure;
  try {
    read = read_into_place(t, manifest, scalars);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  failure = first_failure(t, failure);
  if (!failure.empty()) throw BadStep(failure);
  gather_over_data(t);
  TrainingProgress& p = scalars.progress;
  Index numbers[] = {p.step, p.samples, p.updates, p.skipped};
  host_of(t).broadcast({numbers, 4, DType::i64}, 0);
  report(t, manifest, read);
  p = {numbers[0], numbers[1], numbers[2], numbers[3]};
  if (t.scope != LoadScope::everything) p.updates = 0;
  const std::string* skipped = manifest.identity_of(skipped_samples_fact);
  const bool resumes = t.scope != LoadScope::parameters && skipped != nullptr;
  return {p, std::nullopt, resumes ? *skipped : "", "durable", step};
}

void warn(const LoadTarget& t, const std::string& what) {
  if (host_of(t).rank() == 0) t.context.log().warning("--load " + options_of(t).load + ": " + what);
}

/// Collective. Reads the pieces of a snapshot, each from the nearest place where it is intact.
/// Throws: BadStep.
ReadReport read_pieces(const LoadTarget& t, const SnapshotStep& step, SavedScalars& scalars) {
  MemoryTier& memory = *t.memory;
  for (;;) {
    ReadReport read;
    LostPieces lost = memory.fetch(step);
    lost.collect(host_of(t).rank(), [&] { read = memory.read(step, scalars); });
    lost = lost.of_all(host_of(t));
    if (lost.empty()) return read;
    if (!memory.has_other_places(step, lost)) throw BadStep(lost.text());
    warn(t, str("step ", step.step, ": ", lost.text(), "; it is read from elsewhere"));
  }
}

/// Collective. As load_step, of what is in memory and on disks of the nodes.
Loaded load_snapshot(const LoadTarget& t, const SnapshotStep& step) {
  SavedScalars scalars;
  const ReadReport read = read_pieces(t, step, scalars);
  gather_over_data(t);
  const auto [bytes, ms] = over_ranks(t, read);
  const std::string tier = t.memory->tier_of(step);
  t.context.log().info(fmt::format(
      "loaded step {} from {} of the nodes, where job {} left it: {} read in {:.0f} ms, {:.2f} "
      "GB/s",
      step.step, tier == "local" ? "local disks" : "memory", step.job, show_bytes(bytes), ms,
      rate(bytes, ms)));
  return {scalars.progress, step, "", tier};
}

/// Of moments that were read before damage was found. Parameters are initialised by the caller.
void clear_state(const LoadTarget& t) {
  if (t.optimizer == nullptr) return;
  const Index bytes = t.flat.state_count() * size_bytes(DType::f32);
  for (const Optimizer::StateTensor& tensor : t.optimizer->state_tensors())
    t.context.stream().zero(tensor.data, bytes);
}

/// Why steps cannot be loaded; of many, only of the first few.
class BadSteps {
 public:
  /// Returns false when there are enough reasons already.
  bool add(const std::string& reason) {
    if (++count_ > most_listed) return false;
    reasons_ += "\n  - " + reason;
    return true;
  }
  Index omitted() const { return std::max<Index>(0, count_ - most_listed); }
  std::string text() const {
    return reasons_ + (omitted() > 0 ? str("\n  - and ", omitted(), " more steps") : "");
  }

 private:
  static constexpr Index most_listed = 5;
  Index count_ = 0;
  std::string reasons_;
};

}  // namespace

data::SkippedSamples skipped_after(const Host& host, const data::SkippedSamples& given,
                                   const data::SkippedSamples& recorded,
                                   const TrainingProgress& start) {
  const Index added = recorded.first_missing_of(given);
  if (added >= 0 && added < recorded.at(start.samples)) {
    Problems problems;
    problems.add("--skip-samples ", given.text(), ": sample ", added, " was read before step ",
                 start.step,
                 ", from which the job resumes; an older one is chosen with --ckpt-step");
    agree_on(host, problems);
  }
  data::SkippedSamples all = given;
  all.add(recorded);
  return all;
}

std::string newest_skipped_samples(const Context& context) {
  const auto newest = [&]() -> std::string {
    for (const CommittedStep& step : list_steps(context.options().checkpoint.load)) try {
        const Manifest manifest = read_manifest(step.path);
        const std::string* skipped = manifest.identity_of(skipped_samples_fact);
        return skipped == nullptr ? "" : *skipped;
      } catch (const Error&) {  // the one before it is loaded as well
      }
    return "";
  };
  std::string text;
  on_root(context.host(), [&] { text = newest(); });  // load_checkpoint() reports what fails
  return broadcast_text(context.host(), text);
}

Index newest_verified_step(const Context& context, Index step) {
  Index verified = -1;
  on_root(context.host(), [&] {
    for (const CommittedStep& each : list_steps(context.options().checkpoint.load)) try {
        if (each.step > step) continue;
        verified = read_manifest(each.path).verified_step;
        return;
      } catch (const Error&) {  // damaged: the one before it says less, and nothing wrong
      }
  });
  context.host().broadcast({&verified, 1, DType::i64}, 0);
  return verified;
}

bool saves_where_it_loads(const CheckpointOptions& options) {
  if (options.save.empty() || options.load.empty()) return false;
  std::error_code unknown;
  const auto canonical = [&](const std::string& path) {
    const auto whole = std::filesystem::absolute(path, unknown) / "";
    return std::filesystem::weakly_canonical(whole, unknown);
  };
  return canonical(options.save) == canonical(options.load);
}

Index loading_bytes(const Context& context, const FlatLayout& flat, DeviceKind device) {
  const Options& o = context.options();
  if (o.checkpoint.load.empty() && o.checkpoint.load_hf.empty()) return 0;
  const auto states = static_cast<Index>(Optimizer::state_names(o.optimizer).size());
  const bool moments = load_scope(o.checkpoint) == LoadScope::everything;
  Index wide = 0, narrow = 0;  // they are read one after the other
  const auto add = [&](const std::vector<FlatExtent>& extents, Index tensors) {
    for (const FlatExtent& extent : extents)
      for (const Box& box : extent.extent.boxes)
        (extent.extent.dtype == DType::f32 ? wide : narrow) +=
            tensors * box.count() * size_bytes(DType::f32);
  };
  add(flat.slice_extents(FlatBuffer::masters), 1);
  if (moments) add(flat.slice_extents(FlatBuffer::state), states);
  SavedScalars scalars;
  for (const Wanted& w : wanted_scalars(scalars)) wide += w.box.count() * size_bytes(w.dtype);
  const bool direct = device == DeviceKind::cpu;
  return std::max(reading_bytes(direct, wide, reading_threads(o)),
                  reading_bytes(false, narrow, reading_threads(o)));
}

std::optional<Loaded> load_checkpoint(const LoadTarget& t) {
  const CheckpointOptions& o = options_of(t);
  const std::vector<Place> places = places_to_try(t);
  if (places.empty()) return std::nullopt;
  BadSteps bad;
  for (const Place& place : places) {
    try {
      const Loaded loaded =
          place.snapshot ? load_snapshot(t, *place.snapshot) : load_step(t, place.step);
      if (bad.omitted() > 0) warn(t, str(bad.omitted(), " more steps cannot be loaded either"));
      return loaded;
    } catch (const BadStep& error) {
      const std::string reason = str("step ", place.step, ": ", error.what());
      if (o.ckpt_step >= 0) throw JobError("--load " + o.load + ": " + reason);
      if (bad.add(reason)) warn(t, reason + "; going back to the step before");
    }
  }
  // Snapshots that are damaged leave the job as it would be without them.
  const bool durable =
      std::any_of(places.begin(), places.end(), [](const Place& each) { return !each.snapshot; });
  if (!durable && !o.exit_on_missing_checkpoint) {
    clear_state(t);
    return std::nullopt;
  }
  throw JobError("--load " + o.load + ": no step can be loaded:" + bad.text());
}

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
