// WaitGraph: which rank waits for which, from the status pages of a job. A rank that waits for
// operation n of a group waits for the members that have begun fewer than n.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core/at.h"
#include "runtime/observe/page_reader.h"

namespace trireme::observe {

/// What one rank waits for, in groups that are the same for all ranks.
struct Awaited {
  int group = -1;  // in WaitGraph::groups()
  std::uint64_t sequence = 0;
};

struct JobGroup {
  std::string name;          // "data"
  int number = 0;            // among the groups of one name, ordered by their members
  bool channel = false;      // messages from members[0] to members[1]
  std::vector<int> members;  // world ranks
  std::map<int, std::uint64_t> begun, done;  // by member: operations
};

class WaitGraph {
 public:
  /// Ranks without a page have begun nothing and wait for nothing.
  WaitGraph(const std::vector<PageState>& pages, int ranks);

  const std::vector<JobGroup>& groups() const { return groups_; }
  /// What `rank` waits for; empty while it does not wait for operations.
  const std::vector<Awaited>& awaited(int rank) const { return awaited_[at(rank)]; }
  /// The group of a page's own table in groups().
  int group_of(const PageState& page, int index) const;

  /// Members of the groups that `rank` waits in which have not come so far. Ascending.
  std::vector<int> missing(int rank) const;
  /// Ranks that no missing member holds up: those in an operation that all members have begun, and
  /// those in none. Ranks that have finished are not among them.
  std::vector<int> suspects() const;
  /// Ranks in an operation that `rank` has not ended, or not begun.
  std::vector<int> held_by(int rank) const;
  /// And those that wait for them in turn.
  int count_held_by(int rank) const;
  bool has_ended(int rank, const Awaited& operation) const;

 private:
  void add_groups(const std::vector<PageState>& pages, int ranks);
  void number_groups();
  void find_absent(const Awaited& awaited);

  std::vector<JobGroup> groups_;
  std::map<std::string, int> group_by_key_;
  std::map<std::pair<int, std::uint64_t>, std::vector<int>> absent_;  // by awaited operation
  std::vector<std::vector<Awaited>> awaited_;                         // by rank
  std::vector<bool> has_page_, has_ended_;                            // by rank
};

/// Two ranks that began different operations as the same one of a group: a bug of the program.
struct Mismatch {
  int group = -1;
  std::uint64_t sequence = 0;
  int first_rank = 0, second_rank = 0;
  OperationState first, second;
};
/// Those among the records that the pages still hold, at most one for each group.
std::vector<Mismatch> find_mismatches(const std::vector<PageState>& pages, const WaitGraph& graph);

}  // namespace trireme::observe
