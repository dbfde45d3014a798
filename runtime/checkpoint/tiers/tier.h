// Tier: one of the places that keep states of a run, from which it can resume. Nearest first:
//   MemoryTier     memory of the rank's node (--save-memory-interval)
//   PartnerCopies  memory of another node (--save-memory-partner)
//   LocalCopies    a disk of the rank's node (--save-local)
//   Saver          the directory that all ranks share (--save)
// The first and the last take the state of training; those between copy what the first has. A step
// that is kept here is complete when all ranks have their part of it.
//
// Not installed; modules above may include it.
#pragma once

#include <cmath>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/checkpoint/checkpointer.h"
#include "runtime/checkpoint/tiers/piece_places.h"
#include "runtime/observe/status_page.h"
#include "runtime/store/tiers/slots.h"
#include "runtime/store/tiers/time_line.h"

namespace trireme::checkpoint {

class Tier {
 public:
  virtual ~Tier() = default;
  /// Call before the optimizer changes what a save in progress copies.
  virtual void before_update() {}
  /// Advances the save in progress, between ops and at the end of a step. Never blocks, and
  /// allocates only when a save ends.
  virtual void poll() = 0;
  /// Returns the vote of this rank at the end of a step; settle() takes the sum over all ranks.
  virtual double vote() const = 0;
  virtual void settle(double sum) = 0;
  /// Returns the newest complete step of this run, or -1.
  virtual Index newest() const = 0;
};

/// SnapshotTier: a tier in which each rank keeps its own part of a step, in slots. Ranks pass from
/// one phase to the next by votes, so all of them are in the same one:
///   busy   this rank's part is under way
///   done   it is there, or failed: this rank votes so
/// and once no rank is busy the step is complete, or given up where a rank has failed.
class SnapshotTier : public Tier {
 public:
  static constexpr double busy_vote = 1, failed_vote = 1e9;  // failed: more than any sum of busy

  double vote() const override {
    return phase_ == Phase::busy ? busy_vote : phase_ == Phase::failed ? failed_vote : 0;
  }
  void settle(double sum) override {
    if (is_idle() || std::fmod(sum, failed_vote) != 0) return;
    phase_ = Phase::idle;
    sum > 0 ? give_up() : complete();
  }

 protected:
  enum class Phase { idle, busy, done, failed };

  bool is_idle() const { return phase_ == Phase::idle; }
  bool is_busy() const { return phase_ == Phase::busy; }
  /// Does the work that leads to phase `next`. Where it throws, this rank has failed.
  template <class F>
  void enter(Phase next, F&& work) {
    try {
      work();
      phase_ = next;
    } catch (const std::exception& error) {
      phase_ = Phase::failed;
      warn(error.what());
    }
  }
  void enter(Phase next) { phase_ = next; }
  /// All ranks have done their work.
  virtual void complete() = 0;
  /// Some rank has failed.
  virtual void give_up() {}
  /// This rank has failed.
  virtual void warn(const std::string& why) = 0;

 private:
  Phase phase_ = Phase::idle;
};

/// For what costs at most a copy: where all ranks have a step, it is there whatever its header is
/// called on one of them.
template <class F>
void ignore_failure(F&& f) {
  try {
    f();
  } catch (const Error&) {
  }
}

/// Shows the first failure of a rank in the memory of nodes. `what`: "the snapshot of".
inline void warn_of_memory(const Context& context, bool& warned, const char* what, Index step,
                           const std::string& why) {
  if (!std::exchange(warned, true))
    context.log().warning(str(what, " step ", step, " in memory is not complete: ", why,
                              "; training continues, later failures of this rank are not shown"));
}

/// CopyTier: a tier that keeps copies of the snapshots in memory.
class CopyTier : public SnapshotTier {
 public:
  /// Whether the snapshot of `step` is to be copied. The same on every rank.
  virtual bool due(Index step) const = 0;
  /// Starts to copy the complete snapshot in a slot of memory.
  virtual void start(const store::Slots& memory, int slot, const store::SlotHeader& header) = 0;
  /// Whether that slot must stay as it is. The same on every rank.
  virtual bool needs(int slot) const = 0;
  /// Training has ended: waits until nothing is copied any more. `give_up`: as soon as possible.
  virtual void end(bool give_up) = 0;

  virtual PieceAt place() const = 0;
  /// Where copies come from, in a line of the log.
  virtual std::string describe() const = 0;
  /// Returns the pieces of steps of `line` that this rank finds here, as lines for all ranks.
  /// `is_mine`: whether a snapshot is one that this rank could load.
  virtual std::vector<std::string> find(
      const store::TimeLine& line,
      const std::function<bool(const store::SlotHeader&)>& is_mine) = 0;
  /// Takes what all ranks have found, and adds the pieces that are here to `places`.
  virtual void note(const std::vector<std::vector<std::string>>& found, PiecePlaces& places) = 0;
  /// Collective. Brings the pieces of `step` of these ranks to their memory, but those that are
  /// `lost`: that of this rank to `slot`. Returns its header as text. Adds to `lost` what does not
  /// come.
  virtual std::string fetch(const SnapshotStep& step, const std::vector<int>& ranks,
                            const store::Slots& memory, int slot, LostPieces& lost) = 0;
};

/// StorageWait: while it exists, the status page of this rank says that it waits for storage.
class StorageWait {
 public:
  explicit StorageWait(observe::StatusPage& page) : page_(page), before_(page.phase()) {
    page_.enter(observe::Phase::save_wait);
    page_.wait_for(observe::WaitsFor::storage);
  }
  ~StorageWait() {
    page_.stop_waiting();
    page_.enter(before_);
  }
  StorageWait(const StorageWait&) = delete;
  StorageWait& operator=(const StorageWait&) = delete;

 private:
  observe::StatusPage& page_;
  const observe::Phase before_;
};

}  // namespace trireme::checkpoint
