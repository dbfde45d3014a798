// PiecePlaces: where the pieces of snapshots are, one piece a rank, as all ranks have agreed. A
// step is complete when each piece is in some place. The nearest place counts; where what is there
// turns out to be damaged, the next one does.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/host.h"
#include "trireme/core/dtype.h"

namespace trireme::checkpoint {

/// A step of a job.
struct SnapshotStep {
  Index step = 0;
  std::string job;
  friend bool operator==(const SnapshotStep&, const SnapshotStep&) = default;
  friend auto operator<=>(const SnapshotStep&, const SnapshotStep&) = default;
};

/// Nearest first: memory of the rank's node, memory of another node, a disk of the rank's node.
enum class PieceAt { memory, partner, disk, nowhere };

class PiecePlaces {
 public:
  /// Nothing is known of `ranks` ranks.
  explicit PiecePlaces(int ranks = 0) : ranks_(ranks) {}

  void add(const SnapshotStep& step, int rank, PieceAt place);
  /// Forgets the nearest place of this piece: what is there is of no use.
  void drop_nearest(const SnapshotStep& step, int rank);

  PieceAt nearest(const SnapshotStep& step, int rank) const;
  /// Returns the ranks whose piece has this place as its nearest.
  std::vector<int> ranks_at(const SnapshotStep& step, PieceAt place) const;
  bool is_complete(const SnapshotStep& step) const;
  /// Returns all complete steps, newest first.
  std::vector<SnapshotStep> complete() const;
  /// Returns the newest step up to `last` of which each piece is in this place.
  std::optional<SnapshotStep> newest_at(PieceAt place, Index last) const;

 private:
  int ranks_;
  std::map<SnapshotStep, std::vector<unsigned>> steps_;  // by rank, a bit for each place
};

/// LostPieces: pieces of a snapshot that turned out to be of no use in the place where they were to
/// be taken from, and why. What a rank notices may be about the piece of another one.
class LostPieces {
 public:
  /// Adds a reason; of several for one rank the first counts.
  void add(int rank, const std::string& why) { reasons_.emplace(rank, why); }
  /// Does `work` on the piece of `rank`, unless that is lost already; it is lost where `work`
  /// throws.
  template <class F>
  void collect(int rank, F&& work) {
    if (!has(rank)) try {
        work();
      } catch (const std::exception& error) {
        add(rank, error.what());
      }
  }
  bool has(int rank) const { return reasons_.count(rank) > 0; }
  bool empty() const { return reasons_.empty(); }
  /// Returns why, by rank.
  const std::map<int, std::string>& reasons() const { return reasons_; }
  /// Collective. Returns what all ranks have noticed, the same on every rank.
  LostPieces of_all(const Host& host) const;
  /// Returns the reason of the lowest rank, and how many more ranks there are.
  std::string text() const;

 private:
  std::map<int, std::string> reasons_;
};

}  // namespace trireme::checkpoint
