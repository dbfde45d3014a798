// StatusPage: what a rank does at present, in a file of shared memory that other processes read at
// any time, also after the rank was killed. Constructed without a directory, it writes nothing and
// each call costs one branch.
//
// One thread calls it, the one that runs the steps; what other threads may call says so. No call
// but the constructors and those that add names or groups allocates or enters the kernel.
//
// Not installed; modules above may include it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/dtype.h"

#include "runtime/observe/page_layout.h"
#include "runtime/observe/page_mapping.h"

namespace trireme::observe {

/// A text in the page. Default: the empty one.
struct NameId {
  std::uint32_t offset = 0;
};
/// A group of ranks in the page. Default: none, whose operations are not recorded.
struct GroupId {
  static constexpr std::uint32_t none = UINT32_MAX;
  std::uint32_t index = none;
};
/// An operation that was begun.
struct Operation {
  GroupId group;
  std::uint64_t sequence = 0;  // 1: the first of its group
  std::uint64_t record = 0;    // 1: the first of the page; 0: not recorded
};
struct OperationFacts {
  OperationKind kind = OperationKind::barrier;
  DType dtype = DType::u8;
  Index count = 0;  // elements
  int peer = -1;    // world rank of the other end of a message, or root
};

class StatusPage {
 public:
  StatusPage() = default;
  /// Creates DIRECTORY/rank-00003, and the directory. Throws: Error that names the path.
  StatusPage(const std::string& directory, int rank, int ranks);
  StatusPage(const StatusPage&) = delete;
  StatusPage& operator=(const StatusPage&) = delete;
  bool on() const { return page_ != nullptr; }
  const std::string& path() const { return path_; }  // path of its file; "": it is off

  // At start. When a table of the page is full, the default id is returned, and what would be
  // written with it is left out.
  NameId add_name(std::string_view name);
  /// Readers know a group by name and members: a second one of both gets the name "data 2".
  GroupId add_group(std::string_view name, std::span<const int> world_ranks);
  /// Messages of group `name` from one world rank to another.
  GroupId add_channel(std::string_view name, int from, int to);
  /// A group that is not used again. The next one of its name and members takes its place, and
  /// counts on: members retire their groups in the same order, when all operations are done.
  void retire(GroupId group);
  /// "pp0 dp2 tp1"
  void set_coordinates(std::string_view text);
  /// Ranks that share the GPU of this one; 0: it computes on the CPU.
  void set_sharing(Index ranks);
  /// That this rank runs a step.
  void set_micro_batches(Index count);

  void enter(Phase phase);
  Phase phase() const;
  void begin_step(Index step) {
    if (on()) write_step(step);
  }
  void begin_micro_batch(int micro_batch, NameId action) {
    if (on()) write_micro_batch(micro_batch, action);
  }
  /// The op that starts now.
  void begin_op(int index, NameId op) {
    if (on()) write_op(index, op);
  }
  /// A sign of progress where there are no ops, such as a file that was read. Any thread.
  void progressed();
  /// The own compute time of a step: its time less that of waits.
  void end_step(Index step, std::int64_t compute_ns, double loss);
  void set_durable_step(Index step);  // any thread
  void set_memory_step(Index step);   // any thread
  void set_local_step(Index step);    // on disks of the nodes; any thread
  /// The first failure of this rank; phase failed.
  void fail(std::string_view message);

  Operation begin(GroupId group, const OperationFacts& facts) {
    return on() && group.index != GroupId::none ? write_begin(group, facts) : Operation{};
  }
  void end(const Operation& operation) {
    if (on() && operation.record != 0) write_end(operation);
  }
  /// Waits for operations until stop_waiting(): call heartbeat() whenever the wait polls.
  void wait_for(std::span<const Operation> operations);
  void wait_for(WaitsFor reason);
  void stop_waiting();
  /// Waits of this rank so far, as those who wait report them.
  void add_wait(std::int64_t ns) { waited_ns_ += ns; }
  std::int64_t waited_ns() const { return waited_ns_; }
  void heartbeat() {  // any thread
    if (on()) write_heartbeat();
  }
  /// The fault that another process asks this rank for, once (injection.h); 0: none.
  std::uint64_t take_injection() {
    if (!on() || page_->injection.load(std::memory_order_relaxed) == 0) return 0;
    return page_->injection.exchange(0, std::memory_order_relaxed);
  }

 private:
  friend class StackCapture;

  void write_step(Index step);
  void write_micro_batch(int micro_batch, NameId action);
  void write_op(int index, NameId op);
  Operation write_begin(GroupId group, const OperationFacts& facts);
  void write_end(const Operation& operation);
  void write_wait(const WaitWords& words);
  void write_heartbeat();
  void count_gap(std::int64_t now);
  void move();
  NameId add_name(std::string_view name, std::size_t end);
  GroupId find_group(NameId name, bool channel, std::span<const RankRun> runs) const;
  GroupId new_group(NameId name, bool channel, std::span<const RankRun> runs);
  GroupId publish_group(std::string_view name, bool channel, std::span<const RankRun> runs);

  std::string path_;
  PageMapping mapping_;
  PageLayout* page_ = nullptr;
  PlaceWords place_ = {.step = -1, .micro_batch = -1, .action = 0, .op_index = -1, .op = 0};
  std::array<bool, PageLayout::most_groups> retired_{};
  int steps_begun_ = 0;  // up to 2
  bool waits_ = false;
  std::int64_t waited_ns_ = 0;
};

/// The members of a group as few arithmetic sequences.
std::vector<RankRun> runs_of(std::span<const int> ranks);

/// CLOCK_MONOTONIC; coarse: a few milliseconds behind, for a tenth of the cost.
std::int64_t now_ns();
std::int64_t coarse_now_ns();

}  // namespace trireme::observe
