#include "runtime/observe/hang/verdict_text.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "runtime/core/at.h"

namespace trireme::observe {
namespace {

std::string quoted_op(const PageState& page) {
  if (page.op.empty()) return page.action.empty() ? "" : fmt::format(" {}", page.action);
  return fmt::format(" \"{}{}{}\"", page.op, page.action.empty() ? "" : " ", page.action);
}

std::string micro_batch_of(const PageState& page) {
  return page.micro_batch < 0 ? "" : fmt::format(" of micro-batch {}", page.micro_batch);
}

/// Of the record of an operation, which some member still has.
const OperationState* find_record(const std::vector<RankReport>& reports, const WaitGraph& graph,
                                  const Awaited& awaited) {
  for (const int member : graph.groups()[at(awaited.group)].members) {
    if (at(member) >= reports.size() || !reports[at(member)].page) continue;
    const PageState& page = *reports[at(member)].page;
    for (const OperationState& operation : page.operations)
      if (operation.sequence == awaited.sequence &&
          graph.group_of(page, operation.group) == awaited.group)
        return &operation;
  }
  return nullptr;
}

}  // namespace

std::string describe_rank(const RankReport& report) {
  const std::string coordinates = report.page ? report.page->coordinates : "";
  return fmt::format("rank {} ({}{}{})", report.rank, report.host, coordinates.empty() ? "" : ", ",
                     coordinates);
}

std::string describe_ranks(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  constexpr std::size_t most = 8;
  std::string text = "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i) {
    const bool last = i + 1 == ranks.size();
    text += fmt::format("{}{}", i == 0 ? "" : last ? " and " : ", ", ranks[i]);
  }
  return ranks.size() > most ? fmt::format("{} and {} more", text, ranks.size() - most) : text;
}

std::string describe_hosts(const std::vector<std::string>& hosts) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(hosts.size(), most); ++i)
    text += (i == 0 ? "" : ", ") + hosts[i];
  return hosts.size() > most ? fmt::format("{} and {} more", text, hosts.size() - most) : text;
}

std::string describe_group(const JobGroup& group) {
  if (group.channel)
    return fmt::format("messages of {} from rank {} to rank {}", group.name, group.members.front(),
                       group.members.back());
  return group.name == "world" ? "the world" : fmt::format("{} group {}", group.name, group.number);
}

std::string describe_operation(const std::vector<RankReport>& reports, const WaitGraph& graph,
                               const Awaited& awaited) {
  const JobGroup& group = graph.groups()[at(awaited.group)];
  if (group.channel)
    return fmt::format("message #{} of {} from rank {} to rank {}", awaited.sequence, group.name,
                       group.members.front(), group.members.back());
  const OperationState* record = find_record(reports, graph, awaited);
  return fmt::format("{} #{} of {}", record ? name(record->kind) : "operation", awaited.sequence,
                     describe_group(group));
}

std::string describe_phase(const RankReport& report) {
  if (!report.page) return "";
  const PageState& page = *report.page;
  return page.phase == Phase::step ? fmt::format(", step {}", page.step)
                                   : fmt::format(", phase {}", name(page.phase));
}

std::string describe_place(const RankReport& report) {
  if (!report.page) return "";
  const PageState& page = *report.page;
  const std::string op = quoted_op(page);
  switch (page.waits_for) {
    case WaitsFor::data:
      return ", waiting for data" + describe_phase(report);
    case WaitsFor::storage:
      return ", waiting for storage" + describe_phase(report);
    case WaitsFor::operations:
      return ", waiting for other ranks" + describe_phase(report);
    case WaitsFor::nothing:
      break;
  }
  return (op.empty() ? "" : fmt::format(", in{}{}", op, micro_batch_of(page))) +
         describe_phase(report);
}

std::string describe_activity(const std::vector<RankReport>& reports, const WaitGraph& graph,
                              int rank) {
  const RankReport& report = reports[at(rank)];
  if (!report.page) return "has no status page";
  const PageState& page = *report.page;
  const std::string phase = describe_phase(report);
  switch (page.waits_for) {
    case WaitsFor::data:
      return fmt::format("has waited for data for {:.1f} s{}", page.age_s(page.waits_since_ns),
                         phase);
    case WaitsFor::storage:
      return fmt::format("has waited for storage for {:.1f} s{}", page.age_s(page.waits_since_ns),
                         phase);
    case WaitsFor::operations:
      if (!graph.awaited(rank).empty())
        return fmt::format("has been in {} for {:.1f} s{}",
                           describe_operation(reports, graph, graph.awaited(rank).front()),
                           page.age_s(page.waits_since_ns), phase);
      return fmt::format("has waited for other ranks for {:.1f} s{}",
                         page.age_s(page.waits_since_ns), phase);
    case WaitsFor::nothing:
      break;
  }
  const std::string op = quoted_op(page);
  if (op.empty())
    return fmt::format("has not moved for {:.1f} s{}", page.age_s(page.moved_ns), phase);
  return fmt::format("has computed{}{} for {:.1f} s{}", op, micro_batch_of(page),
                     page.age_s(page.moved_ns), phase);
}

std::string describe_waiting(const std::vector<RankReport>& reports, const WaitGraph& graph,
                             int rank) {
  const int count = graph.count_held_by(rank);
  if (count == 0) return "";
  // The one that has waited longest shows best where the job came to a halt.
  int first = -1;
  double longest_s = -std::numeric_limits<double>::infinity();  // a damaged time may be ahead
  for (const int other : graph.held_by(rank)) {
    const PageState& page = *reports[at(other)].page;
    if (page.age_s(page.waits_since_ns) <= longest_s) continue;
    longest_s = page.age_s(page.waits_since_ns);
    first = other;
  }
  if (first < 0) return "";
  for (const Awaited& awaited : graph.awaited(first))
    if (!graph.has_ended(rank, awaited))
      return fmt::format("; {} wait{} for it, first in {}",
                         count == 1 ? describe_ranks({first}) : fmt::format("{} ranks", count),
                         count == 1 ? "s" : "", describe_operation(reports, graph, awaited));
  return "";
}

}  // namespace trireme::observe
