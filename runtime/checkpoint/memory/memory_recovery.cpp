// Continues MemoryTier (checkpoint/memory/memory_tier.h): what is found after a start, and read.
#include <algorithm>
#include <map>
#include <numeric>
#include <sstream>

#include <fmt/format.h>

#include "trireme/comm/agree.h"

#include "runtime/checkpoint/memory/memory_tier.h"
#include "runtime/checkpoint/read.h"

namespace trireme::checkpoint {

using store::SlotHeader;
using store::Slots;

bool MemoryTier::is_ours(const SlotHeader& header) const {
  const Host& host = context_.host();
  return header.rank == host.rank() && header.ranks == host.world().size() &&
         header.form == form_ &&
         static_cast<Index>(header.blocks.size()) == blocks_of(slots_.bytes());
}

std::vector<SnapshotStep> MemoryTier::complete_steps(const store::TimeLine& line) {
  const auto counts = [&](const SlotHeader& header) {
    return is_ours(header) && line.has(header.step, header.job);
  };
  std::vector<std::string> mine{"form " + to_text(form_)};
  const auto look = [&](FoundSlots& found, const Slots& slots, PieceAt place) {
    found.look(slots, counts);
    for (const auto& header : found.headers)
      if (header)
        mine.push_back(
            fmt::format("own {} {} {}", static_cast<int>(place), header->step, header->job));
  };
  look(found_, slots_, PieceAt::memory);
  if (on_disk_) look(on_disk_->found, on_disk_->slots(), PieceAt::disk);
  if (elsewhere_)
    for (std::string& copy : elsewhere_->found(line)) mine.push_back(std::move(copy));
  note(gather_lists(context_.host(), mine));
  return places_.complete();
}

/// What all ranks have found. With partners, all may have lost their own pieces, as where they have
/// changed places.
void MemoryTier::note(const std::vector<std::vector<std::string>>& found) {
  const int ranks = static_cast<int>(found.size());
  places_ = PiecePlaces(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    for (const std::string& line : found[static_cast<std::size_t>(rank)]) {
      std::istringstream in(line);
      std::string what;
      int place = 0;
      SnapshotStep step;
      if (in >> what && what == "own" && in >> place >> step.step >> step.job)
        places_.add(step, rank, static_cast<PieceAt>(place));
    }
  if (!elsewhere_) return;
  elsewhere_->note(found);
  for (const SnapshotStep& step : elsewhere_->steps())
    for (int rank = 0; rank < ranks; ++rank)
      if (elsewhere_->has(step, rank)) places_.add(step, rank, PieceAt::partner);
}

std::vector<int> MemoryTier::ranks_to_fetch(const SnapshotStep& step, PieceAt place) const {
  std::vector<int> ranks = places_.ranks_at(step, place);
  std::erase_if(ranks, [&](int rank) { return read_.count(rank) > 0; });
  return ranks;
}

LostPieces MemoryTier::fetch(const SnapshotStep& step) {
  LostPieces lost;
  const std::vector<int> partners = ranks_to_fetch(step, PieceAt::partner),
                         disks = ranks_to_fetch(step, PieceAt::disk);
  if (partners.empty() && disks.empty()) return lost;
  remove_slots_of_other_ranks();
  if (!partners.empty()) fetch_from_partners(step, partners, lost);
  if (!disks.empty()) fetch_from_disks(step, disks, lost);
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

void MemoryTier::fetch_from_partners(const SnapshotStep& step, const std::vector<int>& ranks,
                                     LostPieces& lost) {
  const int me = context_.host().rank();
  const bool mine = std::find(ranks.begin(), ranks.end(), me) != ranks.end();
  int slot = 0;
  if (mine) lost.collect(me, [&] { slot = take_slot_for(step); });
  const std::string header = elsewhere_->fetch(step, ranks, slots_, slot, lost);
  if (mine)
    lost.collect(me, [&] {
      const SlotHeader arrived = store::parse_slot_header(header);
      slots_.finish(slot, arrived);
      found_[slot] = arrived;
    });
  log_fetched(step, ranks, lost, "another node");
}

void MemoryTier::fetch_from_disks(const SnapshotStep& step, const std::vector<int>& ranks,
                                  LostPieces& lost) {
  const int me = context_.host().rank();
  const bool mine = std::find(ranks.begin(), ranks.end(), me) != ranks.end();
  if (mine)
    lost.collect(me, [&] {
      const int from = on_disk_->found.find(step), slot = take_slot_for(step);
      on_disk_->slots().read(from, slots_.memory(slot), [this] { page_.progressed(); });
      SlotHeader header = *on_disk_->found[from];
      header.complete = false;
      slots_.finish(slot, header);
      found_[slot] = header;
    });
  log_fetched(step, ranks, lost, "--save-local " + context_.options().checkpoint.save_local);
}

/// Collective.
void MemoryTier::log_fetched(const SnapshotStep& step, const std::vector<int>& ranks,
                             const LostPieces& lost, const std::string& from) const {
  const LostPieces all = lost.of_all(context_.host());
  const auto came = std::count_if(ranks.begin(), ranks.end(), [&](int r) { return !all.has(r); });
  context_.log().info(fmt::format("step {}: {} of {} ranks got their snapshot from {}", step.step,
                                  came, context_.host().world().size(), from));
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
