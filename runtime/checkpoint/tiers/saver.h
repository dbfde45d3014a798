// Saver: the saves of one rank in --save, one at a time, and on rank 0 their commit. Ranks agree on
// each by messages of its own, so their votes only say whether --save-interval-seconds have passed.
// A save advances only in poll():
//   writing     this rank's files are copied and written by their workers
//   gathering   rank 0: receives the reports of the other ranks
//   committing  rank 0: a worker writes the manifest and renames the directory, or removes a failed
//               save
//   waiting     for the outcome from rank 0; non-blocking, like every state
// Nothing is allocated between these transitions.
//
// Not installed; modules above may include it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/checkpoint/checkpointer.h"
#include "runtime/checkpoint/tiers/tier.h"
#include "runtime/observe/status_page.h"
#include "runtime/store/lease/lease.h"
#include "runtime/store/steps.h"
#include "runtime/store/write/snapshot.h"

namespace trireme::checkpoint {

class Saver final : public Tier {
 public:
  struct Parts {
    std::string run;                      // id of this job
    FileLayout layout;                    // this rank's shard, whose memory is borrowed
    Manifest catalog;                     // rank 0: all shards
    std::unique_ptr<Lease> lease;         // rank 0
    std::unique_ptr<Communicator> group;  // all ranks; used for nothing else
    /// Sets the scalars that are saved. Returns on rank 0 a manifest with everything but files and
    /// tensors.
    std::function<Manifest(const SavedState&)> head;
    std::function<void(const SaveRecord&)> saved;  // on rank 0, when a save has ended
  };
  static TierNeed need(const Context& context, const FlatLayout& flat,
                       const OptimizerOptions& optimizer);
  /// Throws: Error when what a rank saves is too large for a file.
  static FileLayout lay_out(const CheckpointOptions& options, std::vector<Piece> pieces);
  /// Collective. Takes all memory of a save.
  Saver(const Context& context, Parts parts);

  /// Returns whether a save is due by --save-interval, or by what ranks have voted since the last
  /// one.
  bool due(Index step) const;
  /// Collective. Waits for the previous save; does nothing when that was of this step. Without
  /// --async-save it returns when the save has ended.
  void start(const SavedState& state);
  void poll() override;
  /// When this returns, what is being saved is copied, or the device's stream waits for the copy.
  void before_update() override;
  double vote() const override;
  void settle(double sum) override { asked_ = asked_ || sum > 0; }
  Index newest() const override { return last_committed_; }
  /// Collective. Returns when no save is in progress and nothing is being deleted.
  void finish();
  /// Collective. Returns when older steps are deleted according to --keep-last as well.
  void finish_and_delete_older();

  /// Returns how many saves failed since the last one that succeeded.
  Index failures() const { return failures_; }
  /// Returns, on rank 0 and when idle, the failure of the last save.
  const std::string& last_error() const { return commit_error_; }
  /// Sets the step that training starts with. delete_older() then deletes what a job that was
  /// killed after its commit did not.
  void resumed_from(Index step);
  /// Starts to delete what is older than the last committed step, according to --keep-last. Does
  /// nothing when that is done.
  void delete_older();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { idle, writing, gathering, committing, waiting };

  /// One file of this rank with the thread that writes it.
  struct Output {
    std::string name;
    std::unique_ptr<Snapshot> snapshot;
    std::unique_ptr<Worker> worker;
  };
  /// What a rank reports to rank 0; its file's checksums follow in the same message.
  struct ShardReport {
    std::int32_t failed = 0, direct = 1, reserved = 1;
    double stall_ms = 0, copy_ms = 0, write_ms = 0;
    Index bytes = 0;
    char error[400] = "";
  };
  using ReportMessage =
      std::vector<std::byte>;  // a ShardReport, then checksums from `header_bytes` on
  static constexpr Index header_bytes = 512;
  static_assert(sizeof(ShardReport) <= header_bytes);

  bool idle() const { return phase_ == Phase::idle; }
  void start_writing(Index step, Manifest head);
  void add_output(const std::string& name, std::unique_ptr<Snapshot> snapshot);
  std::unique_ptr<Snapshot> shard_snapshot(FileLayout layout);
  void start_outputs(const std::string& directory);
  void log_how_it_saves(Index image_bytes) const;
  void wait_until_idle();
  bool written() const;
  void write_report();
  void send_report();
  static std::size_t report_bytes(Index file_bytes);
  static ShardReport report_in(const ReportMessage& message);
  static std::vector<Checksum> checksums_in(const ReportMessage& message);
  std::string failure_of_ranks() const;
  void start_commit();
  void commit(const std::string& failure);
  Manifest complete_manifest() const;
  void send_outcome();
  void end_save();
  void report_save();
  void report_prune();

  const Context& context_;
  const CheckpointOptions& options_;
  observe::StatusPage no_page_;
  observe::StatusPage& page_;
  std::string run_;
  std::function<Manifest(const SavedState&)> head_of_;
  std::function<void(const SaveRecord&)> saved_;
  Manifest catalog_, head_;
  std::unique_ptr<Lease> lease_;
  /// Copies to the host beside training, on a GPU. Null where the pieces are in host memory.
  std::unique_ptr<Stream> copies_;
  std::unique_ptr<Event> ready_;  // to be copied, and then copied
  bool copying_ = false;
  std::vector<Output> outputs_;         // the shard; on rank 0 checkpoint.h5 too
  ReportMessage report_;                // this rank's
  std::vector<ReportMessage> reports_;  // rank 0: those of all ranks, by rank
  std::vector<Message> receives_;

  Phase phase_ = Phase::idle;
  Index step_ = 0;
  Clock::time_point last_start_ = Clock::now(), began_, durable_before_, durable_;
  bool asked_ = false;  // votes asked for a save
  double stall_ms_ = 0;
  std::string failure_;  // what failed on this rank before its worker had anything to do
  Ticket reports_ticket_, outcome_ticket_;
  Index outcome_ = 0;  // 1: committed

  Index failures_ = 0, last_committed_ = -1;
  bool said_how_written_ = false;

  bool delete_due_ = false;  // on rank 0

  // Rank 0. The worker alone touches these while it works.
  std::string commit_error_, prune_error_;
  std::unique_ptr<Worker> committer_;

  std::unique_ptr<Communicator> group_;  // destroyed first, with the messages in flight
};

}  // namespace trireme::checkpoint
