// The words of a verdict.
#pragma once

#include <string>
#include <vector>

#include "runtime/observe/hang/verdict.h"
#include "runtime/observe/hang/wait_graph.h"

namespace trireme::observe {

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
