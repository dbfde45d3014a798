// Continues MemoryTier (checkpoint/memory_tier.h): what is found after a start, and read.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "trireme/comm/agree.h"

#include "runtime/checkpoint/memory_tier.h"
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

std::vector<SnapshotStep> MemoryTier::complete_steps() {
  std::vector<std::string> mine{"form " + to_text(form_)};
  for (int slot = 0; slot < Slots::count; ++slot) {
    auto& found = found_[static_cast<std::size_t>(slot)];
    found = slots_.header(slot);
    if (found && !is_ours(*found)) found.reset();
    if (found) mine.push_back(fmt::format("own {} {}", found->step, found->job));
  }
  if (elsewhere_)
    for (std::string& line : elsewhere_->found()) mine.push_back(std::move(line));
  const auto all = gather_lists(context_.host(), mine);
  if (elsewhere_) elsewhere_->note(all);
  return steps_of_all(all);
}

std::vector<SnapshotStep> MemoryTier::steps_of_all(
    const std::vector<std::vector<std::string>>& found) {
  std::map<SnapshotStep, std::set<int>> own;
  for (std::size_t rank = 0; rank < found.size(); ++rank)
    for (const std::string& line : found[rank]) {
      std::istringstream in(line);
      std::string what;
      SnapshotStep step;
      if (in >> what && what == "own" && in >> step.step >> step.job)
        own[step].insert(static_cast<int>(rank));
    }
  std::vector<SnapshotStep> steps;
  lacking_.clear();
  for (const auto& [step, ranks] : own) {
    std::vector<int> lacking;
    bool whole = true;
    for (int rank = 0; rank < static_cast<int>(found.size()); ++rank) {
      if (ranks.count(rank) > 0) continue;
      lacking.push_back(rank);
      whole = whole && elsewhere_ && elsewhere_->has(step, rank);
    }
    if (!whole) continue;
    steps.insert(steps.begin(), step);  // the map is in ascending order
    lacking_[step] = lacking;
  }
  return steps;
}

void MemoryTier::fetch(const SnapshotStep& step) {
  const std::vector<int>& lacking = lacking_.at(step);
  if (lacking.empty()) return;
  const int me = context_.host().rank();
  const bool mine = std::find(lacking.begin(), lacking.end(), me) != lacking.end();
  // The one that is empty, or older.
  const auto step_of = [](const auto& header) { return header ? header->step : -1; };
  const int slot = step_of(found_[0]) <= step_of(found_[1]) ? 0 : 1;
  agree(context_.host(), [&] {
    if (!mine) return;
    slots_.reserve();
    slots_.begin(slot);
  });
  const std::string header = elsewhere_->fetch(step, lacking, slots_, slot);
  agree(context_.host(), [&] {
    if (!mine) return;
    const SlotHeader arrived = store::parse_slot_header(header);
    slots_.finish(slot, arrived);
    found_[static_cast<std::size_t>(slot)] = arrived;
  });
  context_.log().info(fmt::format("step {}: {} of {} ranks got their snapshot from another node",
                                  step.step, lacking.size(), context_.host().world().size()));
}

int MemoryTier::find(const SnapshotStep& step) const {
  const auto found = std::find_if(found_.begin(), found_.end(), [&](const auto& header) {
    return header && SnapshotStep{header->step, header->job} == step;
  });
  return found == found_.end() ? -1 : static_cast<int>(found - found_.begin());
}

Manifest MemoryTier::manifest_of(int slot) const {
  const SlotHeader& header = *found_[static_cast<std::size_t>(slot)];
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
  const int slot = find(step);
  require(slot >= 0, slots_.directory(), ": this rank has no snapshot of step ", step.step);
  std::vector<Wanted> wanted = wanted_parameters(flat_);
  for (const Wanted& more : wanted_state(flat_, optimizer_)) wanted.push_back(more);
  for (const Wanted& more : wanted_scalars(scalars)) wanted.push_back(more);
  const ReadReport report = read_into(context_.stream(), slots_.directory(), manifest_of(slot),
                                      wanted, reading_threads(context_.options()));
  require(scalars.progress.step == step.step, slots_.directory(), "/", slots_.shard(slot),
          ": is of step ", scalars.progress.step, ", its header of step ", step.step);
  return report;
}

}  // namespace trireme::checkpoint
