// LocalCopies: of this rank's snapshots a copy on a disk of its node, so that the loss of the
// node's memory, as by a reboot, costs little (--save-local). They are the same files as in memory,
// in two slots as well. A thread writes them beside training, from the memory of the snapshot, and
// rests between pieces (DiskPace). What a disk cannot take costs its copy only.
#pragma once

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>

#include "runtime/checkpoint/tiers/found_slots.h"
#include "runtime/checkpoint/tiers/tier.h"
#include "runtime/observe/status_page.h"
#include "runtime/store/write/worker.h"

namespace trireme::checkpoint {

/// DiskPace: how long a copy to a disk rests after each piece, so that it leaves most of a core and
/// half of the disk to training and to saves.
struct DiskPace {
  static constexpr double most_of_disk = 0.5, most_of_core = 0.1;

  /// In seconds. A piece took `took_s`, in which its thread used a core for `cpu_s`.
  static double rest_s(double took_s, double cpu_s) {
    return std::max(took_s / most_of_disk, cpu_s / most_of_core) - took_s;
  }
};

class LocalCopies final : public CopyTier {
 public:
  /// Copies from `mine`, the slots of this rank in memory, which is on `node`; `key`: that of the
  /// run. Makes the directory; where that fails there is a problem().
  LocalCopies(const Context& context, const std::string& key, const store::Slots& mine,
              const std::string& node);
  /// Gives up what is being written.
  ~LocalCopies() override;
  LocalCopies(const LocalCopies&) = delete;
  LocalCopies& operator=(const LocalCopies&) = delete;

  /// Returns why the directory cannot be used, and on which node; empty: it can.
  const std::string& problem() const { return problem_; }
  /// Says that some rank has a problem: then none makes copies, which would never be complete.
  /// Those that are there are read.
  void make_none() { makes_ = false; }
  const store::Slots& slots() const { return slots_; }
  /// Forgets what was found, but for `kept`. Training begins after step `start`.
  void open(const std::optional<SnapshotStep>& kept, Index start);

  /// Returns whether the step is the first one at or after a multiple of the interval.
  bool due(Index step) const override;
  void start(const store::Slots& memory, int slot, const store::SlotHeader& header) override;
  bool needs(int slot) const override { return !is_idle() && source_ == slot; }
  void poll() override;
  /// Finishes without rests what is not given up.
  void end(bool give_up) override;
  Index newest() const override { return newest_; }

  PieceAt place() const override { return PieceAt::disk; }
  std::string describe() const override;
  std::vector<std::string> find(
      const store::TimeLine& line,
      const std::function<bool(const store::SlotHeader&)>& is_mine) override;
  void note(const std::vector<std::vector<std::string>>& found, PiecePlaces& places) override;
  std::string fetch(const SnapshotStep& step, const std::vector<int>& ranks,
                    const store::Slots& memory, int slot, LostPieces& lost) override;

 private:
  enum class Haste { none, finish, give_up };
  class Rests;
  void complete() override;
  void warn(const std::string& why) override;

  const Context& context_;
  observe::StatusPage no_page_;
  observe::StatusPage& page_;
  std::string problem_;
  store::Slots slots_;
  FoundSlots found_;
  store::SlotHeader header_;  // the header of the copy that is being written
  int source_ = 0, target_ = 0;
  Index last_ = 0, newest_ = -1;  // last_: the step of the last copy, be it complete or not
  bool makes_ = true, warned_ = false;
  std::atomic<Haste> haste_{Haste::none};
  Worker worker_;  // goes first
};

}  // namespace trireme::checkpoint
