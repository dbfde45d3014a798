#include "runtime/checkpoint/tiers/memory_tier.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "trireme/comm/agree.h"

#include "runtime/checkpoint/messages.h"
#include "runtime/checkpoint/read.h"
#include "runtime/checkpoint/run_names.h"
#include "runtime/checkpoint/tiers/time_line.h"
#include "runtime/comm/page_of.h"
#include "runtime/core/process/this_machine.h"
#include "runtime/core/show_bytes.h"
#include "runtime/job/layout/layout_mesh.h"

namespace trireme::checkpoint {
namespace {

using store::SlotHeader;
using store::Slots;

/// Pinned, for copies of a GPU on their way to a slot.
constexpr Index passing_ring_bytes = Index{64} << 20;

Index ring_bytes(const Context& context) {
  return context.device().kind() == DeviceKind::cpu ? block_bytes : passing_ring_bytes;
}

/// Throws: Error where the job has no supervisor.
std::string key_of_run(const Context& context) {
  const char* key = std::getenv("TRIREME_RUN_KEY");
  require(key != nullptr && *key != '\0', "--save-memory-interval ",
          context.options().checkpoint.save_memory_interval,
          " needs a supervisor, which says whose snapshots are in memory: start the job with "
          "`trireme run`, or leave the option out");
  return key;
}

std::string directory_of_run(const Context& context) {
  return store::snapshot_directory(key_of_run(context));
}

/// Of what an earlier attempt has left there; 0 where this one can have no such directory.
template <class F>
Index bytes_in_directory(F&& f) {
  try {
    return f();
  } catch (const Error&) {
    return 0;
  }
}

FileLayout lay_out(std::vector<Piece> pieces) {
  try {
    return lay_out_shard(std::move(pieces));
  } catch (const Error& error) {
    throw Error(str("a snapshot in memory: ", error.what()));
  }
}

void put_pieces(Packer& out, const std::vector<Piece>& pieces) {
  const auto put = [&](const Shape& shape) {
    out.put(shape.dims());
    for (const Index extent : shape) out.put(extent);
  };
  for (const Piece& piece : pieces) {
    out.put(piece.tensor);
    out.put(static_cast<Index>(piece.dtype));
    put(piece.global);
    put(piece.box.begin);
    put(piece.box.size);
    out.put(piece.offset);
  }
}

}  // namespace

MemoryTier::MemoryTier(const Context& context, FlatParameters& flat, Optimizer& optimizer,
                       std::string job)
    : context_(context),
      flat_(flat),
      optimizer_(optimizer),
      job_(std::move(job)),
      slots_("", 0, 0),
      page_(comm::page_of(context.host().mesh, no_page_)) {
  scalars_.seed = context.options().seed;
  FileLayout layout = lay_out(snapshot_pieces(flat, optimizer, scalars_));
  pieces_ = layout.pieces;
  slots_ = Slots(directory_of_run(context), context.host().rank(), layout.bytes);
  Device& device = context.device();
  const Index ring = ring_bytes(context);
  if (device.kind() == DeviceKind::cpu) {
    snapshot_ = std::make_unique<Snapshot>(std::move(layout), ring);
    return;
  }
  to_host_ = device.make_stream();
  ready_ = device.make_event();
  snapshot_ = std::make_unique<Snapshot>(std::move(layout), ring, device);
}

void MemoryTier::require_supervisor(const Context& context) { key_of_run(context); }

void MemoryTier::connect() {
  if (context_.options().checkpoint.save_memory_partner)
    copies_.push_back(
        (partner_ = std::make_unique<PartnerCopies>(context_, slots_, warned_)).get());
  if (!context_.options().checkpoint.save_local.empty()) connect_disks();
}

/// Collective. A disk that cannot be used costs the copies of all ranks; none at all is a mistake
/// of a job that begins.
void MemoryTier::connect_disks() {
  disk_ = std::make_unique<LocalCopies>(context_, key_of_run(context_), slots_, host_name());
  copies_.push_back(disk_.get());
  const Host& host = context_.host();
  const std::vector<std::string> all = gather_strings(host, disk_->problem());
  const auto usable = std::count(all.begin(), all.end(), "");
  if (usable == host.world().size()) return;
  disk_->make_none();
  const std::string disk = disk_->describe() + ": ";
  Problems problems;
  if (usable == 0 && supervised_lineage().attempt <= 1)
    problems.add(disk, disk_->problem(), "; it has to be a directory of each node");
  agree_on(host, problems);
  if (host.rank() != 0) return;
  constexpr int most_named = 4;
  int named = 0;
  std::string text;
  for (const std::string& reason : std::set<std::string>(all.begin(), all.end()))
    if (!reason.empty() && ++named <= most_named) text += reason + "; ";
  if (named > most_named) text += str("and ", named - most_named, " more; ");
  context_.log().warning(disk + text +
                         "no rank copies its snapshots to a disk, as copies of some are of no use");
}

TierNeed MemoryTier::need(const Context& context, const FlatLayout& flat,
                          const OptimizerOptions& optimizer) {
  const CheckpointOptions& options = context.options().checkpoint;
  if (options.save_memory_interval == 0) return {};
  const Index bytes = lay_out(planned_snapshot_pieces(flat, optimizer)).bytes;
  // bytes_of_others() has what there is of copies. A check of a layout runs outside the job, so no
  // variable says which run this is.
  const Index reserved = only_checks_layout(context) ? 0 : bytes_in_directory([&] {
    return Slots(directory_of_run(context), context.host().rank(), bytes).reserved_bytes();
  });
  return {ring_bytes(context),
          (options.save_memory_partner ? 2 : 1) * Slots::count * bytes - reserved};
}

Index MemoryTier::more_for_copies(const Context& context, const FlatLayout& flat,
                                  const OptimizerOptions& optimizer, const std::string& node) {
  const CheckpointOptions& options = context.options().checkpoint;
  if (options.save_memory_interval == 0 || !options.save_memory_partner) return 0;
  const Index bytes = lay_out(planned_snapshot_pieces(flat, optimizer)).bytes;
  return PartnerCopies::more_than_own(context, Slots::count * bytes, node);
}

Index MemoryTier::bytes_of_others(const Context& context, const std::vector<int>& own) {
  if (context.options().checkpoint.save_memory_interval == 0) return 0;
  return bytes_in_directory([&] { return store::bytes_of_others(directory_of_run(context), own); });
}

void MemoryTier::identify(const KeyValues& identity) {
  Packer all;
  for (const auto& [name, value] : identity) {
    all.put(name);
    all.put(value);
  }
  put_pieces(all, pieces_);
  all.put(slots_.bytes());
  form_ = checksum(all.bytes().data(), static_cast<Index>(all.bytes().size()));
}

std::vector<int> MemoryTier::ranks_of_node() const {
  const std::vector<std::string> nodes = gather_strings(context_.host(), host_name());
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank)
    if (nodes[rank] == nodes[static_cast<std::size_t>(context_.host().rank())])
      ranks.push_back(static_cast<int>(rank));
  return ranks;
}

std::string MemoryTier::open(const std::optional<SnapshotStep>& kept, Index start) {
  const int found = kept ? found_.find(*kept) : -1;
  const std::vector<int> here = ranks_of_node();
  const std::vector<int> copied = partner_ ? partner_->sources_of_node() : std::vector<int>();
  std::string failure = on_all(context_.host(), [&] {
    for (int slot = 0; slot < Slots::count; ++slot)
      if (slot != found) slots_.begin(slot);
    if (here.front() == context_.host().rank())
      store::remove_slots_of_others(slots_.directory(), here, copied);
  });
  if (!failure.empty()) return failure;  // the memory of those may be needed
  failure = on_all(context_.host(), [&] {
    slots_.reserve();
    if (partner_) partner_->open(kept);
    if (found >= 0) keep(found);
  });
  if (!failure.empty()) return failure;
  newest_ = found < 0 ? -1 : kept->step;
  newest_slot_ = found < 0 ? 1 : found;
  if (newest_ >= 0) page_.set_memory_step(newest_);
  open_ = true;
  log_space();
  if (disk_) open_disks(here, start);
  return "";
}

/// `here`: the ranks of this node.
void MemoryTier::open_disks(const std::vector<int>& here, Index start) {
  if (here.front() == context_.host().rank())
    ignore_failure([&] { store::remove_slots_of_others(disk_->slots().directory(), here); });
  disk_->open(places_.newest_at(PieceAt::disk, start), start);
}

/// Its header is gone where another step was to be brought to this slot, and that failed before it
/// came.
void MemoryTier::keep(int slot) const {
  const std::optional<SlotHeader> header = slots_.header(slot);
  if (!header) slots_.finish(slot, *found_[slot]);
  if (!header || !header->complete) slots_.confirm(slot);
}

/// Collective.
void MemoryTier::log_space() const {
  Index bytes = Slots::count * slots_.bytes();
  context_.host().all_reduce({&bytes, 1, DType::i64}, Reduction::max);
  context_.log().info(fmt::format("snapshots in memory every {} steps, in {}: at most {} a rank",
                                  context_.options().checkpoint.save_memory_interval,
                                  slots_.directory(), show_bytes(bytes)));
}

bool MemoryTier::due(Index step) const {
  return step % context_.options().checkpoint.save_memory_interval == 0;
}

void MemoryTier::start(const TrainingProgress& progress) {
  // Where a partner could not take the newest step, that gives way, and the one before stays.
  const int slot = partner_ && partner_->has_lost(newest_) ? newest_slot_ : 1 - newest_slot_;
  const bool needed = std::any_of(copies_.begin(), copies_.end(),
                                  [&](const CopyTier* copies) { return copies->needs(slot); });
  if (!open_ || !is_idle() || needed) return;
  scalars_.progress = progress;
  step_ = progress.step;
  slot_ = slot;
  enter(to_host_ ? Phase::busy : Phase::done, [&] { fill(slot); });
}

void MemoryTier::fill(int slot) {
  slots_.begin(slot);
  if (!to_host_) {
    snapshot_->save(slots_.memory(slot), context_.host().stream.pool());
    return write_header();
  }
  to_host_->synchronize();  // a snapshot that failed may have left some
  ready_->record(context_.stream());
  ready_->make_wait(*to_host_);
  snapshot_->start_saving(slots_.memory(slot), *to_host_, worker_);
  copying_ = true;
}

void MemoryTier::before_update() {
  if (!copying_) return;
  snapshot_->finish_copying(*to_host_);
  ready_->record(*to_host_);
  ready_->make_wait(context_.stream());
  copying_ = false;
}

void MemoryTier::poll() {
  if (!is_busy()) return;
  snapshot_->move_on(*to_host_);
  if (worker_.finished()) enter(Phase::done, [&] { write_header(); });
}

SlotHeader MemoryTier::header_of_step() const {
  const Host& host = context_.host();
  return {step_, job_, host.rank(), host.world().size(), form_, snapshot_->report().blocks};
}

void MemoryTier::write_header() {
  const SnapshotReport& report = snapshot_->report();
  require(report.error.empty(), report.error);
  slots_.finish(slot_, header_of_step());
}

void MemoryTier::complete() {
  newest_ = step_;
  newest_slot_ = slot_;
  page_.set_memory_step(newest_);
  ignore_failure([&] { slots_.confirm(slot_); });
  for (CopyTier* copies : copies_)
    if (copies->due(step_)) copies->start(slots_, slot_, header_of_step());
}

void MemoryTier::warn(const std::string& why) {
  warn_of_memory(context_, warned_, "the snapshot of", step_, why);
}

void MemoryTier::end(bool remove) {
  for (CopyTier* copies : copies_) copies->end(remove);
  if (!remove) return;
  context_.host().world().barrier();  // no rank writes a header any more
  // Also where earlier jobs of this run have had theirs.
  std::vector<std::string> disks = agree_on_time_line(context_).disks();
  if (disk_) disks.push_back(context_.options().checkpoint.save_local);
  const auto remove_or_warn = [&](const auto& remove_there) {
    try {
      remove_there();
    } catch (const Error& error) {
      context_.log().warning(str("snapshots are left: ", error.what()));
    }
  };
  remove_or_warn([&] { store::remove_snapshots(slots_.directory()); });
  for (const std::string& disk : disks)
    remove_or_warn([&] { store::remove_local_snapshots(disk, key_of_run(context_), host_name()); });
}

bool MemoryTier::is_ours(const SlotHeader& header) const {
  const Host& host = context_.host();
  return header.rank == host.rank() && header.ranks == host.world().size() &&
         header.form == form_ &&
         static_cast<Index>(header.blocks.size()) == blocks_of(slots_.bytes());
}

std::vector<SnapshotStep> MemoryTier::complete_steps(const store::TimeLine& line) {
  const auto is_mine = [&](const SlotHeader& header) {
    return is_ours(header) && line.has(header.step, header.job);
  };
  std::vector<std::string> mine{"form " + to_text(form_)};
  const auto add = [&](const std::vector<std::string>& lines) {
    mine.insert(mine.end(), lines.begin(), lines.end());
  };
  add(found_.look(slots_, is_mine, PieceAt::memory));
  for (CopyTier* copies : copies_) add(copies->find(line, is_mine));
  const std::vector<std::vector<std::string>> found = gather_lists(context_.host(), mine);
  places_ = PiecePlaces(static_cast<int>(found.size()));
  FoundSlots::note(found, PieceAt::memory, places_);
  for (CopyTier* copies : copies_) copies->note(found, places_);
  return places_.complete();
}

std::vector<int> MemoryTier::ranks_to_fetch(const SnapshotStep& step, PieceAt place) const {
  std::vector<int> ranks = places_.ranks_at(step, place);
  std::erase_if(ranks, [&](int rank) { return read_.count(rank) > 0; });
  return ranks;
}

LostPieces MemoryTier::fetch(const SnapshotStep& step) {
  LostPieces lost;
  bool first = true;
  for (CopyTier* copies : copies_) {
    const std::vector<int> ranks = ranks_to_fetch(step, copies->place());
    if (ranks.empty()) continue;
    if (std::exchange(first, false)) remove_slots_of_other_ranks();
    fetch_from(*copies, step, ranks, lost);
  }
  return lost;
}

/// Collective. Those of ranks that are on other nodes now are of no use on this one.
void MemoryTier::remove_slots_of_other_ranks() const {
  const std::vector<int> here = ranks_of_node();
  if (here.front() == context_.host().rank()) try {
      std::vector<int> all(static_cast<std::size_t>(context_.host().world().size()));
      std::iota(all.begin(), all.end(), 0);
      store::remove_slots_of_others(slots_.directory(), here, all);
    } catch (const Error& error) {  // where their memory is needed, taking it fails
      context_.log().warning(str("snapshots of other ranks are left: ", error.what()));
    }
  context_.host().world().barrier();
}

/// A slot of memory for a piece that comes from elsewhere. The other one is taken when the step is
/// loaded, and older copies are gone.
int MemoryTier::take_slot_for(const SnapshotStep& step) {
  const int damaged = found_.find(step);
  const int slot = damaged >= 0 ? damaged : found_.oldest();
  slots_.begin(slot);
  slots_.reserve(slot);
  return slot;
}

/// Collective.
void MemoryTier::fetch_from(CopyTier& tier, const SnapshotStep& step, const std::vector<int>& ranks,
                            LostPieces& lost) {
  const Host& host = context_.host();
  const int me = host.rank();
  const bool mine = std::find(ranks.begin(), ranks.end(), me) != ranks.end();
  int slot = 0;
  if (mine) lost.collect(me, [&] { slot = take_slot_for(step); });
  const std::string header = tier.fetch(step, ranks, slots_, slot, lost);
  if (mine)
    lost.collect(me, [&] {
      const SlotHeader arrived = store::parse_slot_header(header);
      slots_.finish(slot, arrived);
      found_[slot] = arrived;
    });
  const LostPieces all = lost.of_all(host);
  const auto came = std::count_if(ranks.begin(), ranks.end(), [&](int r) { return !all.has(r); });
  context_.log().info(fmt::format("step {}: {} of {} ranks got their snapshot from {}", step.step,
                                  came, host.world().size(), tier.describe()));
}

bool MemoryTier::has_other_places(const SnapshotStep& step, const LostPieces& lost) {
  for (int rank = 0; rank < context_.host().world().size(); ++rank) {
    if (lost.has(rank))
      places_.drop_nearest(step, rank);
    else
      read_.insert(rank);
  }
  const bool has = places_.is_complete(step);
  if (!has) read_.clear();
  return has;
}

const char* MemoryTier::tier_of(const SnapshotStep& step) const {
  return places_.ranks_at(step, PieceAt::disk).empty() ? "memory" : "local";
}

Manifest MemoryTier::manifest_of(int slot) const {
  const SlotHeader& header = *found_[slot];
  Manifest manifest;
  manifest.step = header.step;
  manifest.files.push_back({slots_.shard(slot), slots_.bytes(), header.blocks});
  std::map<std::string, Manifest::Tensor> tensors;
  for (const Piece& piece : pieces_) {
    Manifest::Tensor& tensor = tensors[piece.tensor];
    tensor.name = piece.tensor;
    tensor.dtype = piece.dtype;
    tensor.global = piece.global;
    tensor.pieces.push_back({0, piece.offset, piece.box});
  }
  for (auto& [name, tensor] : tensors) manifest.tensors.push_back(std::move(tensor));
  return manifest;
}

ReadReport MemoryTier::read(const SnapshotStep& step, SavedScalars& scalars) const {
  const int slot = found_.find(step);
  require(slot >= 0, slots_.directory(), ": this rank has no snapshot of step ", step.step);
  std::vector<Wanted> also = wanted_state(flat_, optimizer_);
  for (const Wanted& more : wanted_scalars(scalars)) also.push_back(more);
  const Manifest manifest = manifest_of(slot);
  StepSource source(slots_.directory(), manifest);
  const ReadReport report =
      read_parameters(context_.stream(), source, flat_, also, reading_threads(context_.options()),
                      [this] { page_.progressed(); });
  require(scalars.progress.step == step.step, slots_.directory(), "/", slots_.shard(slot),
          ": is of step ", scalars.progress.step, ", its header of step ", step.step);
  return report;
}

}  // namespace trireme::checkpoint
