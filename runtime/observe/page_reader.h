// PageReader: a status page as a process reads it that did not write it, while its writer runs or
// after it was killed.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "trireme/core/dtype.h"

#include "runtime/observe/page_layout.h"
#include "runtime/observe/page_mapping.h"

namespace trireme::observe {

/// A group of world ranks. Two pages mean the same one when all but the counts agree.
struct GroupState {
  std::string name;
  bool channel = false;       // messages from the first member to the second
  std::vector<RankRun> runs;  // its members, which are many in a large job
  std::uint64_t begun = 0, done = 0;
};

struct OperationState {
  int group = -1;  // index in PageState::groups
  std::uint64_t sequence = 0;
  OperationKind kind = OperationKind::barrier;
  DType dtype = DType::u8;
  Index count = 0;
  int peer = -1;
  std::int64_t begun_ns = 0, done_ns = 0;  // done 0: not done
};

struct AwaitedOperation {
  int group = -1;
  std::uint64_t sequence = 0;
};

struct StepTime {
  Index step = 0;
  std::int64_t compute_ns = 0;
};

/// One reading of a page. Times are CLOCK_MONOTONIC of the machine of the rank; compare ages, not
/// times, of different machines.
struct PageState {
  int rank = 0, ranks = 1;
  std::int64_t pid = 0, started_ticks = 0;
  std::string host, coordinates;
  std::int64_t read_ns = 0;

  Phase phase = Phase::start;
  std::int64_t phase_ns = 0;
  Index step = -1;
  Index micro_batches = 0;  // per step on this rank; 0: unknown
  Index sharing = -1;       // ranks of its GPU; 0: it has none; -1: unknown
  int micro_batch = -1, op_index = -1;
  std::string action, op;
  std::uint64_t ops = 0;
  std::int64_t moved_ns = 0, heartbeat_ns = 0, longest_gap_ns = 0;
  WaitsFor waits_for = WaitsFor::nothing;
  std::int64_t waits_since_ns = 0;
  std::vector<AwaitedOperation> awaited;
  Index durable_step = -1, memory_step = -1, local_step = -1;
  double loss = 0;
  std::string error;
  std::vector<StepTime> steps;  // the last ones, oldest first
  std::vector<GroupState> groups;
  std::vector<OperationState> operations;  // the last ones, oldest first
  std::vector<std::uint64_t> stack;        // addresses, innermost first
  std::uint64_t stacks_captured = 0;       // changes when the stack does
  std::vector<std::string> torn;           // records that their writer did not finish; left out

  /// Infinite for a time of 0, which is never; negative only where the page is damaged.
  double age_s(std::int64_t time_ns) const {
    return time_ns == 0 ? std::numeric_limits<double>::infinity()
                        : (static_cast<double>(read_ns) - static_cast<double>(time_ns)) / 1e9;
  }
  bool has_ended() const { return phase == Phase::finished || phase == Phase::failed; }
};

/// What shows that a rank moves, and how long it may stay without.
struct RankProgress {
  std::uint64_t ops = 0;
  Phase phase = Phase::start;
  double longest_gap_s = 0;  // between ops, waits left out; 0: less than two steps are done
};

class PageReader {
 public:
  /// Throws: Error that names the file when it is no status page, or one of another version.
  explicit PageReader(const std::string& path);
  /// Never blocks longer than a few milliseconds for each record that its writer has not finished.
  PageState read() const;
  /// A small part of it: for who looks often.
  RankProgress progress() const;
  /// For copies.
  const PageLayout& raw() const { return page(); }

 private:
  const PageLayout& page() const { return *static_cast<const PageLayout*>(mapping_.data()); }

  PageMapping mapping_;
};

/// Paths of the status pages in a directory, by rank; none when there is no such directory.
std::vector<std::string> find_pages(const std::string& directory);

}  // namespace trireme::observe
