// The Checkpointer: its construction, and when it saves. Loading is in load.cpp.
#include "runtime/checkpoint/checkpointer.h"

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/checkpoint/initial_values.h"
#include "runtime/checkpoint/load.h"
#include "runtime/checkpoint/messages.h"
#include "runtime/checkpoint/run_names.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/checkpoint/tiers/memory_tier.h"
#include "runtime/checkpoint/tiers/saver.h"
#include "runtime/checkpoint/tiers/time_line.h"
#include "runtime/comm/page_of.h"
#include "runtime/interop/model_files.h"
#include "runtime/options/left_out_samples.h"
#include "runtime/store/file.h"

namespace trireme {

using namespace checkpoint;

namespace {

std::string describe_layout(const Context& context) {
  const Options& o = context.options();
  std::string text = context.mesh().shape().describe();
  if (o.chunks > 1) text += fmt::format(", {} chunks a stage", o.chunks);
  if (o.use_distributed_optimizer) text += ", distributed optimizer";
  if (!o.optimizer_shares.empty())
    text += ", optimizer shares " + trireme::describe(o.optimizer_shares);
  return text;
}

}  // namespace

struct Checkpointer::State {
  State(const Context& context_, FlatParameters& flat_, Optimizer* optimizer_,
        const KeyValues& model_, std::function<void(const SaveRecord&)> saved_)
      : context(context_),
        flat(flat_),
        optimizer(optimizer_),
        model(model_),
        saved(std::move(saved_)) {
    scalars.seed = context.options().seed;
    std::vector<Piece> pieces =
        saved_pieces(flat, optimizer, host.rank() == 0 ? &scalars : nullptr);
    require(optimizer != nullptr || options.save.empty(),
            "a job of forward passes only (Options::forward_only) has nothing to save");
    if (options.save.empty())
      catalog = gather_catalog(host, {.pieces = std::move(pieces)});
    else
      prepare_saving(std::move(pieces));
    list_tiers();
  }

  void prepare_saving(std::vector<Piece> pieces);
  void make_memory_tier();
  void do_without_memory(const std::string& why);
  void list_tiers();
  std::unique_ptr<Lease> take_directory();
  Manifest head(const SavedState& saved);
  void begin_time_line(const std::optional<Loaded>& loaded, bool resumes);
  void set_aside(Index step);
  void take_origin();

  const Context& context;
  FlatParameters& flat;
  Optimizer* const optimizer;  // null: nothing is trained
  const KeyValues model;
  const std::function<void(const SaveRecord&)> saved;
  const CheckpointOptions& options = context.options().checkpoint;
  const Host& host = context.host();
  std::string run;
  KeyValues origin;  // facts about the files of --load-hf with which the run began
  data::SkippedSamples skipped = options::left_out_samples(context.options());
  SavedScalars scalars;
  Manifest catalog;                                // rank 0: of what all ranks write
  std::unique_ptr<Saver> saver;                    // null without --save
  std::unique_ptr<checkpoint::MemoryTier> memory;  // null without --save-memory-interval
  std::vector<Tier*> tiers;
  bool snapshot_due = false, save_due = false;
};

void Checkpointer::State::prepare_saving(std::vector<Piece> pieces) {
  std::unique_ptr<Lease> lease = take_directory();
  FileLayout layout;
  Problems problems;
  problems.collect([&] { layout = Saver::lay_out(options, std::move(pieces)); });
  if (options.save_memory_interval > 0)
    problems.collect([&] { checkpoint::MemoryTier::require_supervisor(context); });
  agree_on(host, problems);
  if (options.save_memory_interval > 0) make_memory_tier();
  catalog = gather_catalog(host, layout);
  saver = std::make_unique<Saver>(
      context, Saver::Parts{run, std::move(layout), catalog, std::move(lease),
                            host.mesh.split(0, "checkpoint"),
                            [this](const SavedState& state) { return head(state); }, saved});
}

/// Collective.
void Checkpointer::State::make_memory_tier() {
  const std::string failure = on_all(host, [&] {
    memory = std::make_unique<checkpoint::MemoryTier>(context, flat, *optimizer, run);
  });
  if (failure.empty()) return memory->connect();
  do_without_memory(failure);
}

/// Snapshots in memory only shorten a recovery. `why`: the same on all ranks.
void Checkpointer::State::do_without_memory(const std::string& why) {
  memory.reset();
  list_tiers();
  if (host.rank() != 0) return;
  context.log().warning(str("--save-memory-interval ", options.save_memory_interval, ": ", why,
                            "; the job continues without snapshots in memory"));
}

void Checkpointer::State::list_tiers() {
  tiers.clear();
  if (memory) {
    tiers.push_back(memory.get());
    tiers.insert(tiers.end(), memory->copies().begin(), memory->copies().end());
  }
  if (saver) tiers.push_back(saver.get());
}

/// Collective. Afterwards --save is a directory that every rank can write to and that no other job
/// uses. The lease is rank 0's.
std::unique_ptr<Lease> Checkpointer::State::take_directory() {
  run = broadcast_text(host, host.rank() == 0 ? new_run_id() : "");
  Problems problems;
  if (options.finetune && saves_where_it_loads(options))
    problems.add("--finetune starts a run of its own, so --save ", options.save,
                 " has to be another directory than --load");
  agree_on(host, problems);

  std::unique_ptr<Lease> lease;
  observe::StatusPage no_page;
  observe::StatusPage& page = comm::page_of(host.mesh, no_page);
  std::vector<std::string> leftovers;
  std::string given_up;
  const std::string failure = on_root(host, [&] {
    make_directory(options.save);
    try {
      lease = std::make_unique<Lease>(
          options.save, run, LeaseOptions{},
          [&] {
            page.heartbeat();  // another job may hold it for long
            return !context.stop_reason().empty();
          },
          supervised_lineage());
    } catch (const LeaseGivenUp& error) {
      given_up = error.what();
      return;
    }
    leftovers = clean_leftovers(options.save);
  });
  given_up = broadcast_text(host, given_up);
  if (!given_up.empty()) {
    context.log().info(str(context.stop_reason(), ": stopped before the first step; --save ",
                           options.save, ": ", given_up));
    throw Stopped();
  }
  if (!failure.empty())
    problems.add("--save ", options.save, ": ", failure);
  else if (access(options.save.c_str(), W_OK | X_OK) != 0)
    problems.add("--save ", options.save,
                 ": cannot be written to here; it has to be a directory that all ranks share");
  agree_on(host, problems);
  for (const std::string& name : leftovers)
    context.log().info("removed " + options.save + "/" + name + ", which a dead job left");
  return lease;
}

/// Saver::Parts::head.
Manifest Checkpointer::State::head(const SavedState& saved) {
  scalars.progress = saved.progress;  // the snapshot of the save before has been taken
  Manifest manifest;
  if (host.rank() != 0) return manifest;
  manifest.step = saved.progress.step;
  manifest.run = run;
  manifest.created = utc_now("{:%Y-%m-%dT%H:%M:%SZ}");
  manifest.layout = describe_layout(context);
  manifest.identity = with_skipped(job_identity(model, context.options(), saved.train), skipped);
  manifest.identity.insert(manifest.identity.end(), origin.begin(), origin.end());
  manifest.options = context.configuration();
  manifest.versions = software_versions(context.device().describe());
  for (const SourcePosition& position : saved.train.positions(skipped.at(saved.progress.samples)))
    manifest.positions.emplace_back(position.name, std::to_string(position.samples));
  manifest.verified = saved.verified;
  manifest.verified_step = saved.verified_step;
  return manifest;
}

/// Collective. The run that is loaded may have begun with files of another program: what it keeps
/// of them goes along.
void Checkpointer::State::take_origin() {
  const std::string failure = on_root(host, [&] {
    origin = interop::kept_facts(options.load);
    if (!options.save.empty()) interop::keep_kept(options.load, options.save);
  });
  if (!failure.empty()) throw JobError("--load " + options.load + ": " + failure);
}

/// Collective. What earlier jobs have made after the step that was loaded is abandoned.
void Checkpointer::State::begin_time_line(const std::optional<Loaded>& loaded, bool resumes) {
  const Index attempt = host.rank() == 0 ? supervised_lineage().attempt : 0;  // which writes it
  const store::StartOfJob start{attempt, loaded ? loaded->progress.step : 0,
                                loaded ? loaded->tier : ""};
  checkpoint::begin_time_line(context, run, start, resumes);
}

/// Collective. This run resumes from `step`. Newer checkpoints in its directory are not part of its
/// history: a later --load would take them for its newest state, and --keep-last would keep them
/// instead of what this run saves.
void Checkpointer::State::set_aside(Index step) {
  std::vector<std::string> names;
  const std::string failure =
      on_root(host, [&] { names = set_aside_newer(options.save, step, run); });
  if (!failure.empty()) throw JobError("--save " + options.save + ": " + failure);
  if (names.empty()) return;
  std::string line = fmt::format("{}: this run begins from step {}",
                                 describe_set_aside(options.save, names), step);
  if (options.load.empty())
    line += fmt::format(
        "; to continue from one of them instead: stop, rename it to {0}/step-NNNNNN, and start "
        "with --load {0}",
        options.save);
  context.log().info(line);
}

Checkpointer::Checkpointer(Context& context, FlatParameters& flat, Optimizer* optimizer,
                           const KeyValues& identity, std::function<void(const SaveRecord&)> saved)
    : state_(std::make_unique<State>(context, flat, optimizer, identity, std::move(saved))) {}
Checkpointer::~Checkpointer() = default;

TierNeed checkpoint::tiers_need(const Context& context, const FlatLayout& flat,
                                const OptimizerOptions& optimizer) {
  const TierNeed durable = Saver::need(context, flat, optimizer),
                 memory = MemoryTier::need(context, flat, optimizer);
  return {durable.saving + memory.saving, durable.snapshots + memory.snapshots};
}

std::optional<TrainingProgress> Checkpointer::load(const DataSource& train) {
  State& s = *state_;
  const KeyValues identity = job_identity(s.model, s.context.options(), train);
  const LoadScope scope = load_scope(s.options);
  // A snapshot that is found was made by a job that left out exactly these.
  data::SkippedSamples of_snapshots = s.skipped;
  if (s.memory) {
    if (!s.options.load.empty())
      of_snapshots.add(data::SkippedSamples(newest_skipped_samples(s.context)));
    s.memory->identify(with_skipped(identity, of_snapshots));
  }
  const bool resumes = saves_where_it_loads(s.options) && scope == LoadScope::everything;
  std::optional<Loaded> loaded;
  if (!s.options.load.empty())
    loaded = load_checkpoint({s.context, s.flat, s.optimizer, s.catalog, identity, files_of(train),
                              scope, resumes ? s.memory.get() : nullptr});
  if (!s.options.load.empty() && !loaded)
    s.context.log().info("no checkpoint in " + s.options.load + ": starting from " +
                         (s.options.load_hf.empty() ? "scratch" : s.options.load_hf));
  if (loaded) s.take_origin();
  const TrainingProgress start = loaded ? loaded->progress : TrainingProgress{};
  const data::SkippedSamples recorded =
      loaded && loaded->snapshot ? of_snapshots
                                 : data::SkippedSamples(loaded ? loaded->skipped_samples : "");
  s.skipped = skipped_after(s.host, s.skipped, recorded, start);
  if (s.memory) s.memory->identify(with_skipped(identity, s.skipped));
  s.optimizer->set_updates(start.updates);
  // A job that resumes and has nothing left to train makes no other past of this directory.
  const bool ends_here = loaded && resumes && start.step >= s.context.options().train_iters;
  if (s.saver && !ends_here) {
    s.begin_time_line(loaded, resumes);
    s.set_aside(start.step);
  }
  if (loaded && resumes && !loaded->snapshot) s.saver->resumed_from(start.step);
  if (s.memory) {
    const std::string failure =
        s.memory->open(loaded ? loaded->snapshot : std::nullopt, start.step);
    if (!failure.empty()) s.do_without_memory(failure);
  }
  if (!loaded) return std::nullopt;
  return start;
}

Index Checkpointer::verified_step(const TrainingProgress& loaded) const {
  const bool resumes = saves_where_it_loads(state_->options);
  return resumes ? newest_verified_step(state_->context, loaded.step) : -1;
}

const data::SkippedSamples& Checkpointer::skipped_samples() const { return state_->skipped; }

std::optional<TrainingProgress> Checkpointer::load_parameters(const UsedTokenizer& tokenizer) {
  State& s = *state_;
  if (s.options.load.empty()) return std::nullopt;  // --load-hf has the values, or they are drawn
  const auto loaded =
      load_checkpoint({s.context, s.flat, s.optimizer, s.catalog, job_identity(s.model, tokenizer),
                       files_of(tokenizer), LoadScope::parameters});
  Problems problems;
  if (!loaded && s.options.load_hf.empty())
    problems.add("--load ", s.options.load,
                 " has no checkpoint, and a job that does not train needs one");
  agree_on(s.context.host(), problems);
  if (!loaded) return std::nullopt;
  TrainingProgress progress = loaded->progress;
  if (s.optimizer == nullptr) progress.step = loaded->step;  // of parameters that stay as they are
  return progress;
}

void Checkpointer::load_initial_values(
    const std::function<void(const std::function<Index(const std::string&)>&)>& draw) {
  State& s = *state_;
  s.origin = checkpoint::load_initial_values(s.context, s.flat, s.catalog, draw);
}

const std::vector<Tier*>& Checkpointer::tiers() const { return state_->tiers; }
Saver* Checkpointer::durable() const { return state_->saver.get(); }

void Checkpointer::end_step(Index step, bool skipped, const std::function<SavedState()>& state) {
  State& s = *state_;
  s.snapshot_due = s.snapshot_due || (s.memory && s.memory->due(step));
  s.save_due = s.save_due || (s.saver && s.saver->due(step));
  if (s.snapshot_due && !skipped) {
    s.memory->start(state().progress);
    s.snapshot_due = false;
  }
  if (s.save_due && !skipped) {
    s.saver->start(state());
    s.save_due = false;
  }
  poll();
}

void Checkpointer::end_snapshots(bool durable) {
  if (state_->memory) state_->memory->end(durable);
}

void Checkpointer::before_update() {
  for (Tier* tier : state_->tiers) tier->before_update();
}

void Checkpointer::poll() {
  for (Tier* tier : state_->tiers) tier->poll();
}

}  // namespace trireme
