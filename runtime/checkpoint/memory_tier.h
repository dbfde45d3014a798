// MemoryTier: snapshots of this rank in memory of its node, which outlive the rank and mpirun, so
// that a run resumes from a newer step than the newest durable one (--save-memory-interval). A
// snapshot is all that this rank reads when it resumes in the same layout; so no rank needs the
// files of another. One at a time:
//   copying   into the slot that does not hold the newest complete step
//   written   the header is there: this rank votes yes
//   complete  all ranks have voted, at a step boundary
// Ranks find on their own what they have; which step is loaded they agree on (load.h).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/checkpoint/partner_copies.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/observe/status_page.h"
#include "runtime/store/tiers/slots.h"
#include "runtime/store/write/snapshot.h"

namespace trireme::checkpoint {

class MemoryTier {
 public:
  /// `flat` and `optimizer` are bound and borrowed. `job`: the id of this job. Throws: Error where
  /// no supervisor says which run this is.
  MemoryTier(const Context& context, FlatParameters& flat, Optimizer& optimizer, std::string job);

  /// Bytes of a rank in the memory of its node, beyond what an earlier attempt has reserved for its
  /// own slots.
  static Index reserved_bytes(const Context& context, const FlatLayout& flat,
                              const OptimizerOptions& optimizer);
  /// Bytes there that open() uses again or gives back: what an earlier attempt has left, but for
  /// the slots of the ranks in `own`, which are all those of this node.
  static Index bytes_of_others(const Context& context, const std::vector<int>& own);
  /// Host memory besides.
  static Index buffer_bytes(const Context& context);

  /// Snapshots of jobs with another identity are not found. Before all that follows.
  void identify(const KeyValues& identity);
  /// Collective. The steps that all ranks have, or that partners have for them; newest first.
  std::vector<SnapshotStep> complete_steps();
  /// Collective. Brings what partners have of `step` to ranks that have lost theirs. Throws: Error
  /// on all ranks.
  void fetch(const SnapshotStep& step);
  /// Fills parameters and state as far as this rank reads them. Throws: Error when a block is
  /// damaged; the content is then undefined.
  ReadReport read(const SnapshotStep& step, SavedScalars& scalars) const;
  /// Collective. Takes the memory of the slots; all but `kept` is forgotten. Throws:
  /// ConfigurationError on all ranks when there is too little.
  void open(const std::optional<SnapshotStep>& kept);
  bool is_open() const { return open_; }
  /// Collective, after construction on all ranks. No effect without --save-memory-partner.
  void connect();

  bool due(Index step) const;
  /// Starts a snapshot; does nothing while the one before is not complete.
  void save(const TrainingProgress& progress);
  /// Call before the optimizer changes what is copied.
  void before_update();
  void poll();
  /// Added over all ranks: 0 when none has a snapshot that others wait for.
  double vote() const;
  void take_vote(double sum);
  /// The newest complete step of this run; -1: none.
  Index newest() const { return newest_; }
  /// Collective. Waits for copies that are under way. `remove`: the snapshots of all ranks on this
  /// node.
  void end(bool remove);

 private:
  enum class Phase { idle, copying, written, sending, sent, failed };
  int find(const SnapshotStep& step) const;
  bool is_ours(const store::SlotHeader& header) const;
  void write_header();
  void fail(const std::string& why);
  void warn(const std::string& why);
  std::vector<int> ranks_of_node() const;
  std::vector<SnapshotStep> steps_of_all(const std::vector<std::vector<std::string>>& found);
  void start_sending(int slot);
  void end_sending();
  void log_space() const;
  Manifest manifest_of(int slot) const;

  const Context& context_;
  FlatParameters& flat_;
  Optimizer& optimizer_;
  const std::string job_;
  SavedScalars scalars_;
  std::vector<Piece> pieces_;  // with their offsets
  store::Slots slots_;
  std::array<std::optional<store::SlotHeader>, store::Slots::count> found_;  // of this job's form
  Worker worker_;                                                            // of a GPU's copies
  std::unique_ptr<Snapshot> snapshot_;
  std::unique_ptr<PartnerCopies> elsewhere_;          // null without --save-memory-partner
  std::map<SnapshotStep, std::vector<int>> lacking_;  // complete steps: ranks without their own
  /// On a GPU: copies to the host beside training.
  std::unique_ptr<Stream> copies_;
  std::unique_ptr<Event> ready_;
  bool copying_ = false, open_ = false, warned_ = false;
  Checksum form_;

  observe::StatusPage no_page_;
  observe::StatusPage& page_;
  Phase phase_ = Phase::idle;
  Index step_ = 0, newest_ = -1;
  int slot_ = 0;  // that is filled, or will be next
};

}  // namespace trireme::checkpoint
