#include "runtime/observe/hang/wait_graph.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace trireme::observe {
namespace {

/// The same text on all ranks for the same group, and another for any other.
std::string key_of(const GroupState& group) {
  std::string key = fmt::format("{}\n{}", group.name, group.channel);
  for (const RankRun& run : group.runs)
    key += fmt::format("\n{} {} {}", run.first, run.count, run.stride);
  return key;
}

std::vector<int> members_of(const GroupState& group) {
  std::vector<int> members;
  for (const RankRun& run : group.runs)
    for (int i = 0; i < run.count; ++i) members.push_back(run.first + i * run.stride);
  return members;
}

bool same_operation(const OperationState& a, const OperationState& b) {
  return std::tuple(a.kind, a.dtype, a.count, a.peer) ==
         std::tuple(b.kind, b.dtype, b.count, b.peer);
}

}  // namespace

WaitGraph::WaitGraph(const std::vector<PageState>& pages, int ranks)
    : awaited_(at(ranks)), has_page_(at(ranks)), has_ended_(at(ranks)) {
  add_groups(pages, ranks);
  number_groups();
  for (const PageState& page : pages) {
    if (page.rank >= ranks) continue;
    has_page_[at(page.rank)] = true;
    has_ended_[at(page.rank)] = page.has_ended();
    for (const AwaitedOperation& operation : page.awaited)
      if (const int group = group_of(page, operation.group); group >= 0)
        awaited_[at(page.rank)].push_back({group, operation.sequence});
  }
  for (const auto& operations : awaited_)
    for (const Awaited& operation : operations) find_absent(operation);
}

void WaitGraph::add_groups(const std::vector<PageState>& pages, int ranks) {
  for (const PageState& page : pages)
    for (const GroupState& group : page.groups) {
      // A page of a larger job, or one whose header is damaged, has ranks that this job has not.
      const bool known = std::all_of(group.runs.begin(), group.runs.end(),
                                     [&](const RankRun& run) { return run.is_within(ranks); });
      if (group.runs.empty() || !known) continue;
      const auto [index, fresh] =
          group_by_key_.try_emplace(key_of(group), static_cast<int>(groups_.size()));
      if (fresh) groups_.push_back({group.name, 0, group.channel, members_of(group), {}, {}});
      groups_[at(index->second)].begun[page.rank] = group.begun;
      groups_[at(index->second)].done[page.rank] = group.done;
    }
}

void WaitGraph::number_groups() {
  std::map<std::pair<std::string, bool>, std::vector<JobGroup*>> of_name;
  for (JobGroup& group : groups_) of_name[{group.name, group.channel}].push_back(&group);
  for (auto& [name, groups] : of_name) {
    std::sort(groups.begin(), groups.end(),
              [](const JobGroup* a, const JobGroup* b) { return a->members < b->members; });
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i]->number = static_cast<int>(i);
  }
}

void WaitGraph::find_absent(const Awaited& awaited) {
  const auto [found, fresh] = absent_.try_emplace({awaited.group, awaited.sequence});
  if (!fresh) return;
  const JobGroup& group = groups_[at(awaited.group)];
  for (const int member : group.members) {
    const auto begun = group.begun.find(member);
    if (begun == group.begun.end() || begun->second < awaited.sequence)
      found->second.push_back(member);
  }
}

int WaitGraph::group_of(const PageState& page, int index) const {
  if (index < 0 || at(index) >= page.groups.size()) return -1;
  const auto found = group_by_key_.find(key_of(page.groups[at(index)]));
  return found == group_by_key_.end() ? -1 : found->second;
}

std::vector<int> WaitGraph::missing(int rank) const {
  std::set<int> found;
  for (const auto& [group, sequence] : awaited(rank)) {
    const std::vector<int>& absent = absent_.at({group, sequence});
    found.insert(absent.begin(), absent.end());
  }
  found.erase(rank);
  return {found.begin(), found.end()};
}

std::vector<int> WaitGraph::suspects() const {
  std::vector<int> found;
  for (int rank = 0; at(rank) < awaited_.size(); ++rank)
    if (has_page_[at(rank)] && !has_ended_[at(rank)] && missing(rank).empty())
      found.push_back(rank);
  return found;
}

bool WaitGraph::has_ended(int rank, const Awaited& operation) const {
  const JobGroup& group = groups_[at(operation.group)];
  if (std::find(group.members.begin(), group.members.end(), rank) == group.members.end())
    return true;
  const auto done = group.done.find(rank);
  return done != group.done.end() && done->second >= operation.sequence;
}

std::vector<int> WaitGraph::held_by(int rank) const {
  std::vector<int> found;
  for (int other = 0; at(other) < awaited_.size(); ++other)
    if (other != rank &&
        std::any_of(awaited(other).begin(), awaited(other).end(),
                    [&](const Awaited& operation) { return !has_ended(rank, operation); }))
      found.push_back(other);
  return found;
}

int WaitGraph::count_held_by(int rank) const {
  std::vector<std::vector<int>> waiting(awaited_.size());
  for (int other = 0; at(other) < awaited_.size(); ++other)
    for (const int member : missing(other))
      if (at(member) < waiting.size()) waiting[at(member)].push_back(other);
  std::vector<bool> seen(awaited_.size());
  seen[at(rank)] = true;
  int count = 0;
  std::vector<int> open;
  const auto add = [&](const std::vector<int>& ranks) {
    for (const int other : ranks) {
      if (seen[at(other)]) continue;
      seen[at(other)] = true;
      ++count;
      open.push_back(other);
    }
  };
  add(held_by(rank));
  while (!open.empty()) {
    const int next = open.back();
    open.pop_back();
    add(waiting[at(next)]);
  }
  return count;
}

std::vector<Mismatch> find_mismatches(const std::vector<PageState>& pages, const WaitGraph& graph) {
  std::map<std::pair<int, std::uint64_t>, std::pair<int, const OperationState*>> first;
  std::map<int, Mismatch> found;  // by group: what follows the first one is its consequence
  for (const PageState& page : pages)
    for (const OperationState& operation : page.operations) {
      const int group = graph.group_of(page, operation.group);
      if (group < 0 || graph.groups()[static_cast<std::size_t>(group)].channel) continue;
      const auto [known, fresh] =
          first.try_emplace({group, operation.sequence}, page.rank, &operation);
      const auto& [rank, other] = known->second;
      if (fresh || same_operation(*other, operation)) continue;
      const auto earlier = found.find(group);
      if (earlier == found.end() || operation.sequence < earlier->second.sequence)
        found[group] = {group, operation.sequence, rank, page.rank, *other, operation};
    }
  std::vector<Mismatch> mismatches;
  for (auto& [group, mismatch] : found) mismatches.push_back(std::move(mismatch));
  return mismatches;
}

}  // namespace trireme::observe
