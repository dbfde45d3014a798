// MemoryTier: snapshots of this rank in memory of its node, which outlive the rank and mpirun, so
// that a run resumes from a newer step than the newest durable one (--save-memory-interval). Copies
// may lie in memory of other nodes (PartnerCopies) and on disks (LocalCopies). A snapshot is all
// that this rank reads when it resumes in the same layout; so no rank needs the files of another.
// The slot is filled that does not hold the newest complete step. Ranks find on their own what they
// have; which step is loaded they agree on (load.h).
//
// Not installed; modules above may include it.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/checkpoint/tensors.h"
#include "runtime/checkpoint/tiers/found_slots.h"
#include "runtime/checkpoint/tiers/local_copies.h"
#include "runtime/checkpoint/tiers/partner_copies.h"
#include "runtime/checkpoint/tiers/piece_places.h"
#include "runtime/observe/status_page.h"
#include "runtime/store/write/snapshot.h"

namespace trireme::checkpoint {

class MemoryTier final : public SnapshotTier {
 public:
  /// Throws: Error where no supervisor says which run this is.
  static void require_supervisor(const Context& context);
  /// Returns what a rank takes with its copies, beyond what an earlier attempt has reserved for its
  /// own slots. Those that it keeps of others are counted as large as its own; more_for_copies() is
  /// what they take beyond that. Nothing without --save-memory-interval.
  static TierNeed need(const Context& context, const FlatLayout& flat,
                       const OptimizerOptions& optimizer);
  /// Collective. Returns what copies take beyond need(), less than 0 where they take less. `node`:
  /// that of this rank.
  static Index more_for_copies(const Context& context, const FlatLayout& flat,
                               const OptimizerOptions& optimizer, const std::string& node);
  /// Returns the bytes of the node that open() uses again or gives back: what an earlier attempt
  /// has left, but for the slots of the ranks in `own`, which are all those of this node.
  static Index bytes_of_others(const Context& context, const std::vector<int>& own);

  /// `flat` and `optimizer` are bound and borrowed. `job`: the id of this job. Throws: Error, as
  /// require_supervisor(), or where other users have taken the directory in memory.
  MemoryTier(const Context& context, FlatParameters& flat, Optimizer& optimizer, std::string job);
  /// Collective, after construction on all ranks: for --save-memory-partner and --save-local.
  /// Throws: ConfigurationError on all ranks when none can use the directory of --save-local in the
  /// first attempt of a run.
  void connect();
  /// Returns the tiers with copies of its snapshots, nearest first.
  const std::vector<CopyTier*>& copies() const { return copies_; }

  /// Sets the identity of the job: snapshots of jobs with another one are not found. Called before
  /// all that follows.
  void identify(const KeyValues& identity);
  /// Collective. Returns the steps of `line` of which the piece of each rank is in some place;
  /// newest first.
  std::vector<SnapshotStep> complete_steps(const store::TimeLine& line);
  /// Collective. Brings the pieces of `step` to memory of the nodes of their ranks, each from the
  /// place nearest to it. Returns those that did not come, as far as this rank knows.
  LostPieces fetch(const SnapshotStep& step);
  /// Returns whether other places have these pieces, which are of no use in the nearest one; then
  /// fetch() takes them there, and leaves alone what all others have read. `lost`: the same on
  /// every rank.
  bool has_other_places(const SnapshotStep& step, const LostPieces& lost);
  /// Names where a loaded step came from: "memory", or "local" if a piece came from a disk.
  const char* tier_of(const SnapshotStep& step) const;
  /// Fills parameters and state as far as this rank reads them. Throws: Error when a block is
  /// damaged; the content is then undefined.
  ReadReport read(const SnapshotStep& step, SavedScalars& scalars) const;
  /// Collective. Takes the memory of the slots. Forgets all but `kept`, and on disks all but the
  /// newest complete step up to `start`, with which training begins. Returns why that failed on
  /// a rank, as where there is too little memory, or "": the same on all of them.
  std::string open(const std::optional<SnapshotStep>& kept, Index start);

  bool due(Index step) const;
  /// Starts a snapshot after open(); does nothing while the one before, or what it would overwrite,
  /// is needed.
  void start(const TrainingProgress& progress);
  void before_update() override;
  void poll() override;
  Index newest() const override { return newest_; }
  /// Collective. Waits for copies that are under way. `remove`: the snapshots of all ranks; copies
  /// to disks are then given up.
  void end(bool remove);

 private:
  bool is_ours(const store::SlotHeader& header) const;
  void fill(int slot);
  void write_header();
  void complete() override;
  void warn(const std::string& why) override;
  std::vector<int> ranks_of_node() const;
  void open_disks(const std::vector<int>& here, Index start);
  std::vector<int> ranks_to_fetch(const SnapshotStep& step, PieceAt place) const;
  void remove_slots_of_other_ranks() const;
  void fetch_from(CopyTier& tier, const SnapshotStep& step, const std::vector<int>& ranks,
                  LostPieces& lost);
  int take_slot_for(const SnapshotStep& step);
  void connect_disks();
  void keep(int slot) const;
  store::SlotHeader header_of_step() const;
  void log_space() const;
  Manifest manifest_of(int slot) const;

  const Context& context_;
  FlatParameters& flat_;
  Optimizer& optimizer_;
  const std::string job_;
  SavedScalars scalars_;
  std::vector<Piece> pieces_;  // with their offsets
  store::Slots slots_;
  FoundSlots found_;    // slots of this job's form
  PiecePlaces places_;  // where the pieces of all ranks are
  std::set<int> read_;  // ranks with their piece of the step that is loaded in memory
  Worker worker_;       // copies the memory of a GPU
  std::unique_ptr<Snapshot> snapshot_;
  bool warned_ = false;
  std::unique_ptr<PartnerCopies> partner_;  // null without --save-memory-partner
  std::unique_ptr<LocalCopies> disk_;       // null without --save-local
  std::vector<CopyTier*> copies_;           // those two
  /// Copies to the host beside training, on a GPU.
  std::unique_ptr<Stream> to_host_;
  std::unique_ptr<Event> ready_;
  bool copying_ = false, open_ = false;
  Checksum form_;

  observe::StatusPage no_page_;
  observe::StatusPage& page_;
  Index step_ = 0, newest_ = -1;
  int slot_ = 0, newest_slot_ = 1;  // slot_: the one that is filled, or was
};

}  // namespace trireme::checkpoint
