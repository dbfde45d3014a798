// MemoryTier: snapshots of this rank in memory of its node, which outlive the rank and mpirun, so
// that a run resumes from a newer step than the newest durable one (--save-memory-interval). Copies
// may lie in memory of other nodes (PartnerCopies) and on disks (LocalCopies). A snapshot is all
// that this rank reads when it resumes in the same layout; so no rank needs the files of another.
// One at a time:
//   copying   into the slot that does not hold the newest complete step
//   written   the header is there: this rank votes yes
//   complete  all ranks have voted, at a step boundary
// Ranks find on their own what they have; which step is loaded they agree on (load.h).
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/checkpoint/memory/found_slots.h"
#include "runtime/checkpoint/memory/local_copies.h"
#include "runtime/checkpoint/memory/partner_copies.h"
#include "runtime/checkpoint/memory/piece_places.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/observe/status_page.h"
#include "runtime/store/tiers/slots.h"
#include "runtime/store/tiers/time_line.h"
#include "runtime/store/write/snapshot.h"

namespace trireme::checkpoint {

class MemoryTier {
 public:
  /// Throws: Error where no supervisor says which run this is.
  static void require_supervisor(const Context& context);
  /// `flat` and `optimizer` are bound and borrowed. `job`: the id of this job. Throws: Error, as
  /// require_supervisor(), or where other users have taken the directory in memory.
  MemoryTier(const Context& context, FlatParameters& flat, Optimizer& optimizer, std::string job);

  /// Bytes of a rank in the memory of its node, beyond what an earlier attempt has reserved for its
  /// own slots; with as much again for copies that it keeps of others, if there are any. 0 without
  /// --save-memory-interval, as the next two.
  static Index reserved_bytes(const Context& context, const FlatLayout& flat,
                              const OptimizerOptions& optimizer);
  /// Collective. What these copies take beyond that; less than 0 where they take less. `node`: that
  /// of this rank.
  static Index more_for_copies(const Context& context, const FlatLayout& flat,
                               const OptimizerOptions& optimizer, const std::string& node);
  /// Bytes there that open() uses again or gives back: what an earlier attempt has left, but for
  /// the slots of the ranks in `own`, which are all those of this node.
  static Index bytes_of_others(const Context& context, const std::vector<int>& own);
  /// Host memory besides.
  static Index buffer_bytes(const Context& context);

  /// Snapshots of jobs with another identity are not found. Before all that follows.
  void identify(const KeyValues& identity);
  /// Collective. The steps of `line` of which the piece of each rank is in some place; newest
  /// first.
  std::vector<SnapshotStep> complete_steps(const store::TimeLine& line);
  /// Collective. Brings the pieces of `step` to memory of the nodes of their ranks, each from the
  /// place nearest to it. Returns those that did not come, as far as this rank knows.
  LostPieces fetch(const SnapshotStep& step);
  /// Whether other places have these pieces, which are of no use in the nearest one; then fetch()
  /// takes them there, and leaves alone what all others have read. `lost`: the same on every rank.
  bool has_other_places(const SnapshotStep& step, const LostPieces& lost);
  /// Of a step that is loaded: "memory", or "local" if a piece came from a disk.
  const char* tier_of(const SnapshotStep& step) const;
  /// Fills parameters and state as far as this rank reads them. Throws: Error when a block is
  /// damaged; the content is then undefined.
  ReadReport read(const SnapshotStep& step, SavedScalars& scalars) const;
  /// Collective. Takes the memory of the slots; all but `kept` is forgotten, and on disks all but
  /// the newest complete step up to `start`, with which training begins. Returns why that failed on
  /// a rank, as where there is too little memory, or "": the same on all of them.
  std::string open(const std::optional<SnapshotStep>& kept, Index start);
  bool is_open() const { return open_; }
  /// Collective, after construction on all ranks: for --save-memory-partner and --save-local.
  /// Throws: ConfigurationError on all ranks when none can use the directory of --save-local in the
  /// first attempt of a run.
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
  /// The same of copies on disks.
  double disk_vote() const { return on_disk_ ? on_disk_->vote() : 0; }
  void take_disk_vote(double sum) {
    if (on_disk_) on_disk_->take_vote(sum);
  }
  /// The newest complete step of this run; -1: none.
  Index newest() const { return newest_; }
  /// The same on disks.
  Index newest_on_disk() const { return on_disk_ ? on_disk_->newest() : -1; }
  /// Collective. Waits for copies that are under way. `remove`: the snapshots of all ranks; copies
  /// to disks are then given up.
  void end(bool remove);

 private:
  /// The last three are those of copies for partners.
  enum class Phase { idle, copying, written, failed, prepared, sending, sent };
  bool is_ours(const store::SlotHeader& header) const;
  void write_header();
  void fail(const std::string& why);
  void warn(const std::string& why);
  std::vector<int> ranks_of_node() const;
  void open_disks(const std::vector<int>& here, Index start);
  void note(const std::vector<std::vector<std::string>>& found);
  std::vector<int> ranks_to_fetch(const SnapshotStep& step, PieceAt place) const;
  void remove_slots_of_other_ranks() const;
  void fetch_from_partners(const SnapshotStep& step, const std::vector<int>& ranks,
                           LostPieces& lost);
  void fetch_from_disks(const SnapshotStep& step, const std::vector<int>& ranks, LostPieces& lost);
  void log_fetched(const SnapshotStep& step, const std::vector<int>& ranks, const LostPieces& lost,
                   const std::string& from) const;
  int take_slot_for(const SnapshotStep& step);
  void connect_disks();
  void keep(int slot) const;
  store::SlotHeader header_of_step() const;
  void end_writing();
  void prepare_sending();
  void start_sending();
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
  FoundSlots found_;    // of this job's form
  PiecePlaces places_;  // of all ranks
  std::set<int> read_;  // ranks that have theirs in memory, of the step that is being loaded
  Worker worker_;       // of a GPU's copies
  std::unique_ptr<Snapshot> snapshot_;
  std::unique_ptr<PartnerCopies> elsewhere_;  // null without --save-memory-partner
  std::unique_ptr<LocalCopies> on_disk_;      // null without --save-local
  /// On a GPU: copies to the host beside training.
  std::unique_ptr<Stream> copies_;
  std::unique_ptr<Event> ready_;
  bool copying_ = false, open_ = false, warned_ = false;
  bool sends_ = false;  // the complete snapshot to partners, since it was complete
  Checksum form_;

  observe::StatusPage no_page_;
  observe::StatusPage& page_;
  Phase phase_ = Phase::idle;
  Index step_ = 0, newest_ = -1;
  int slot_ = 0;  // that is filled, or will be next
};

}  // namespace trireme::checkpoint
