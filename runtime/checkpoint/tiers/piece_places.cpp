#include "runtime/checkpoint/tiers/piece_places.h"

#include <algorithm>
#include <vector>

#include "trireme/comm/agree.h"
#include "trireme/core/error.h"

namespace trireme::checkpoint {
namespace {

unsigned bit(PieceAt place) { return 1u << static_cast<unsigned>(place); }

PieceAt nearest_in(unsigned places) {
  for (const PieceAt place : {PieceAt::memory, PieceAt::partner, PieceAt::disk})
    if ((places & bit(place)) != 0) return place;
  return PieceAt::nowhere;
}

bool all_have(const std::vector<unsigned>& ranks, unsigned places) {
  return std::all_of(ranks.begin(), ranks.end(), [&](unsigned has) { return (has & places) != 0; });
}

constexpr unsigned anywhere = ~0u;

}  // namespace

void PiecePlaces::add(const SnapshotStep& step, int rank, PieceAt place) {
  auto [found, fresh] = steps_.try_emplace(step);
  if (fresh) found->second.resize(static_cast<std::size_t>(ranks_));
  found->second.at(static_cast<std::size_t>(rank)) |= bit(place);
}

void PiecePlaces::drop_nearest(const SnapshotStep& step, int rank) {
  steps_.at(step).at(static_cast<std::size_t>(rank)) &= ~bit(nearest(step, rank));
}

PieceAt PiecePlaces::nearest(const SnapshotStep& step, int rank) const {
  const auto found = steps_.find(step);
  return found == steps_.end() ? PieceAt::nowhere
                               : nearest_in(found->second.at(static_cast<std::size_t>(rank)));
}

std::vector<int> PiecePlaces::ranks_at(const SnapshotStep& step, PieceAt place) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < ranks_; ++rank)
    if (nearest(step, rank) == place) ranks.push_back(rank);
  return ranks;
}

bool PiecePlaces::is_complete(const SnapshotStep& step) const {
  const auto found = steps_.find(step);
  return found != steps_.end() && all_have(found->second, anywhere);
}

std::vector<SnapshotStep> PiecePlaces::complete() const {
  std::vector<SnapshotStep> all;
  for (auto each = steps_.rbegin(); each != steps_.rend(); ++each)
    if (all_have(each->second, anywhere)) all.push_back(each->first);
  return all;
}

std::optional<SnapshotStep> PiecePlaces::newest_at(PieceAt place, Index last) const {
  for (auto each = steps_.rbegin(); each != steps_.rend(); ++each)
    if (each->first.step <= last && all_have(each->second, bit(place))) return each->first;
  return std::nullopt;
}

LostPieces LostPieces::of_all(const Host& host) const {
  std::vector<std::string> mine;
  for (const auto& [rank, why] : reasons_) mine.push_back(str(rank, ' ', why));
  LostPieces all;
  for (const std::vector<std::string>& noticed : gather_lists(host, mine))
    for (const std::string& line : noticed)
      all.add(std::stoi(line), line.substr(line.find(' ') + 1));
  return all;
}

std::string LostPieces::text() const {
  if (empty()) return "";
  const auto& [rank, why] = *reasons_.begin();
  const std::size_t more = reasons_.size() - 1;
  return str("rank ", rank, ": ", why,
             more == 0 ? "" : str(" (and of ", more, more == 1 ? " more rank)" : " more ranks)"));
}

}  // namespace trireme::checkpoint
