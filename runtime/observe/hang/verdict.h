// Verdict: why a job that no longer moves does not, as a pure function of the status pages and of
// what the kernel says about the processes.
//
// Not installed; modules above may include it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/observe/hang/wait_graph.h"
#include "runtime/observe/page_reader.h"
#include "runtime/observe/process_state.h"

namespace trireme::observe {

/// All that is known about one rank.
struct RankReport {
  int rank = 0;
  std::string host;  // as the launcher names it; needed where there is no page
  std::optional<PageState> page;
  enum class Process { unknown, running, ended };
  Process process = Process::unknown;  // ended: also when another one has its pid
  ProcessState state;                  // state of a process that runs
  bool node_silent = false;            // its node was asked, and did not answer
};
/// Reports what a page of this machine says.
RankReport report_of(const PageReader& page);

struct JudgeOptions {
  /// A rank that has neither moved nor polled for so long is frozen. Shorter than the time after
  /// which a job counts as hung, and longer than the time that a full machine keeps a rank from its
  /// core.
  double frozen_s = 2;
};

struct Verdict {
  enum class Kind {
    none,           // no rank is suspect
    rank,           // `ranks` hold all others up
    node,           // `ranks` do, and they are all on one node
    group,          // all have come, and yet the operation of `group` does not end
    program_error,  // ranks disagree about their operations: no node is to blame
    node_silent,    // nodes do not answer
    debugger,       // a rank is being debugged: never end this job
    stopped,        // all ranks are: a user has stopped the job, and may continue it
    storage,        // those that hold the others up read
    exit            // all ranks have finished
  };
  Kind kind = Kind::none;
  /// More than a suspicion: what the kernel says, or the only rank that shows no sign of life.
  bool certain = false;
  std::vector<int> ranks;          // ascending
  std::vector<std::string> hosts;  // hosts of these ranks, each once; sorted
  std::string group;               // "data group 0"
  std::string sentence;            // "hang: rank 37 (n05, pp0 dp2 tp1) has computed ..."
  // A rank is stopped (SIGSTOP) or its node is silent, others are not: no phase explains that.
  bool stopped = false;

  bool blames_nodes() const {
    return kind == Kind::rank || kind == Kind::node || kind == Kind::node_silent;
  }
};

const char* name(Verdict::Kind kind);

/// `reports`: one for each rank, in their order.
Verdict judge(const std::vector<RankReport>& reports, const JudgeOptions& options = {});

// The words of a verdict.

/// "rank 37 (n05, pp0 dp2 tp1)"
std::string describe_rank(const RankReport& report);
/// "rank 3", "ranks 3, 5 and 7"; of many the first ones, and how many there are.
std::string describe_ranks(const std::vector<int>& ranks);
/// "n02, n05"; of many the first ones, and how many there are.
std::string describe_hosts(const std::vector<std::string>& hosts);
/// "data group 0", "messages of pipeline from rank 2 to rank 6"
std::string describe_group(const JobGroup& group);
/// "reduce-scatter #2041 of data group 0"
std::string describe_operation(const std::vector<RankReport>& reports, const WaitGraph& graph,
                               const Awaited& awaited);
/// ", step 1182", ", phase load"
std::string describe_phase(const RankReport& report);
/// ", in "attention backward" of micro-batch 3, step 1182", ", waiting for data, phase evaluate":
/// what the rank does, or did last.
std::string describe_place(const RankReport& report);
/// "has computed "attention backward" of micro-batch 3 for 12.0 s, step 1182"
std::string describe_activity(const std::vector<RankReport>& reports, const WaitGraph& graph,
                              int rank);
/// "; 63 ranks wait for it, first in reduce-scatter #2041 of data group 0"; "" when none does.
std::string describe_waiting(const std::vector<RankReport>& reports, const WaitGraph& graph,
                             int rank);

}  // namespace trireme::observe
