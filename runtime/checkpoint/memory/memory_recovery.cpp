// Continues MemoryTier (checkpoint/memory/memory_tier.h): what is found after a start, and read.
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

void MemoryTier::fetch(const SnapshotStep& step) {
  const std::vector<int> partners = places_.ranks_at(step, PieceAt::partner),
                         disks = places_.ranks_at(step, PieceAt::disk);
  if (partners.empty() && disks.empty()) return;
  const std::vector<int> here = ranks_of_node();
  agree(context_.host(), [&] {
    if (here.front() != context_.host().rank()) return;
    std::vector<int> all(static_cast<std::size_t>(context_.host().world().size()));
    std::iota(all.begin(), all.end(), 0);
    store::remove_slots_of_others(slots_.directory(), here, all);  // of no use on this node
  });
  if (!partners.empty()) fetch_from_partners(step, partners);
  if (!disks.empty()) fetch_from_disks(step, disks);
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

void MemoryTier::fetch_from_partners(const SnapshotStep& step, const std::vector<int>& ranks) {
  const bool mine = nearest(step) == PieceAt::partner;
  int slot = 0;
  agree(context_.host(), [&] {
    if (mine) slot = take_slot_for(step);
  });
  const std::string header = elsewhere_->fetch(step, ranks, slots_, slot);
  agree(context_.host(), [&] {
    if (!mine) return;
    const SlotHeader arrived = store::parse_slot_header(header);
    slots_.finish(slot, arrived);
    found_[slot] = arrived;
  });
  context_.log().info(fmt::format("step {}: {} of {} ranks got their snapshot from another node",
                                  step.step, ranks.size(), context_.host().world().size()));
}

void MemoryTier::fetch_from_disks(const SnapshotStep& step, const std::vector<int>& ranks) {
  agree(context_.host(), [&] {
    if (nearest(step) != PieceAt::disk) return;
    const int from = on_disk_->found.find(step), slot = take_slot_for(step);
    on_disk_->slots().read(from, slots_.memory(slot), [this] { page_.progressed(); });
    SlotHeader header = *on_disk_->found[from];
    header.complete = false;
    slots_.finish(slot, header);
    found_[slot] = header;
  });
  context_.log().info(fmt::format("step {}: {} of {} ranks got their snapshot from --save-local {}",
                                  step.step, ranks.size(), context_.host().world().size(),
                                  context_.options().checkpoint.save_local));
}

PieceAt MemoryTier::nearest(const SnapshotStep& step) const {
  return places_.nearest(step, context_.host().rank());
}

bool MemoryTier::has_other_places(const SnapshotStep& step, bool failed) {
  const std::vector<std::string> all = gather_strings(context_.host(), failed ? "failed" : "");
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) places_.drop_nearest(step, static_cast<int>(rank));
  return places_.is_complete(step);
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
  std::vector<Wanted> wanted = wanted_parameters(flat_);
  for (const Wanted& more : wanted_state(flat_, optimizer_)) wanted.push_back(more);
  for (const Wanted& more : wanted_scalars(scalars)) wanted.push_back(more);
  const ReadReport report =
      read_into(context_.stream(), slots_.directory(), manifest_of(slot), wanted,
                reading_threads(context_.options()), [this] { page_.progressed(); });
  require(scalars.progress.step == step.step, slots_.directory(), "/", slots_.shard(slot),
          ": is of step ", scalars.progress.step, ", its header of step ", step.step);
  return report;
}

}  // namespace trireme::checkpoint
