// The rules, the certain ones first. Each returns a verdict of kind none when it does not apply.
#include "runtime/observe/hang/verdict.h"

#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "runtime/core/at.h"
#include "runtime/observe/hang/wait_graph.h"

namespace trireme::observe {
namespace {

using Kind = Verdict::Kind;

std::vector<PageState> pages_of(const std::vector<RankReport>& reports) {
  std::vector<PageState> pages;
  for (const RankReport& report : reports)
    if (report.page) pages.push_back(*report.page);
  return pages;
}

/// It is in no wait that polls, and has reached no op boundary.
bool is_frozen(const RankReport& report, double frozen_s) {
  if (!report.page || report.page->has_ended()) return false;
  const PageState& page = *report.page;
  return page.age_s(page.moved_ns) > frozen_s && page.age_s(page.heartbeat_ns) > frozen_s;
}

bool reads(const RankReport& report) {
  if (!report.page) return false;
  const PageState& page = *report.page;
  return page.phase == Phase::load || page.waits_for == WaitsFor::data ||
         page.waits_for == WaitsFor::storage;
}

bool is_stopped(const RankReport& report) {
  return report.process == RankReport::Process::running && report.state.state == 'T';
}

class Judge {
 public:
  Judge(const std::vector<RankReport>& reports, const JudgeOptions& options)
      : reports_(reports),
        options_(options),
        pages_(pages_of(reports)),
        graph_(pages_, static_cast<int>(reports.size())) {}

  Verdict run() const {
    for (const auto rule :
         {&Judge::silent_nodes, &Judge::debugged, &Judge::all_stopped, &Judge::all_finished,
          &Judge::processes, &Judge::mismatches, &Judge::all_read, &Judge::frozen,
          &Judge::without_page, &Judge::left_alone, &Judge::suspected})
      if (Verdict verdict = (this->*rule)(); verdict.kind != Kind::none) return verdict;
    return no_suspect();
  }

 private:
  template <class Predicate>
  std::vector<int> ranks_where(Predicate predicate) const {
    std::vector<int> ranks;
    for (const RankReport& report : reports_)
      if (predicate(report)) ranks.push_back(report.rank);
    return ranks;
  }

  Verdict verdict(Kind kind, bool certain, std::vector<int> ranks, std::string sentence) const {
    std::set<std::string> hosts;
    for (const int rank : ranks) hosts.insert(reports_[at(rank)].host);
    return {kind, certain, std::move(ranks), {hosts.begin(), hosts.end()}, "", std::move(sentence)};
  }

  Verdict silent_nodes() const {
    const auto ranks = ranks_where([](const RankReport& report) { return report.node_silent; });
    if (ranks.empty()) return {};
    Verdict found = verdict(Kind::node_silent, true, ranks, "");
    found.sentence = fmt::format("hang: {} ({}) {} not answer", describe_hosts(found.hosts),
                                 describe_ranks(ranks), found.hosts.size() == 1 ? "does" : "do");
    found.stopped = true;
    return found;
  }

  Verdict debugged() const {
    const auto ranks = ranks_where([](const RankReport& report) {
      return report.process == RankReport::Process::running && report.state.tracer_pid != 0;
    });
    if (ranks.empty()) return {};
    const RankReport& first = reports_[at(ranks[0])];
    return verdict(Kind::debugger, true, ranks,
                   fmt::format("no hang: {} is traced by process {}, a debugger",
                               describe_rank(first), first.state.tracer_pid));
  }

  Verdict all_stopped() const {
    const auto ranks = ranks_where(is_stopped);
    if (ranks.size() != reports_.size() || ranks.empty()) return {};
    return verdict(Kind::stopped, true, ranks, "no hang: all ranks are stopped (SIGSTOP)");
  }

  Verdict all_finished() const {
    const auto ranks = ranks_where([](const RankReport& report) {
      return report.page && report.page->phase == Phase::finished;
    });
    if (ranks.size() != reports_.size() || ranks.empty()) return {};
    return verdict(Kind::exit, true, ranks,
                   "hang: all ranks have finished, and their processes or the launcher do not end");
  }

  Verdict processes() const {
    const auto describe = [](const RankReport& report) -> std::string {
      if (report.page && report.page->phase == Phase::finished) return "";
      if (report.page && report.page->phase == Phase::failed)
        return fmt::format("has failed: {}", report.page->error);
      if (report.process == RankReport::Process::ended) return "has ended";
      if (report.process == RankReport::Process::unknown) return "";
      const std::string in =
          report.state.wait_channel.empty() ? "" : fmt::format(" in {}", report.state.wait_channel);
      switch (report.state.state) {
        case 'Z':
        case 'X':
          return "has ended";
        case 'T':
          return "is stopped (SIGSTOP)";
        case 'D':
          return "sleeps in the kernel" + in;
        default:
          return "";
      }
    };
    const auto ranks = ranks_where([&](const RankReport& report) {
      // A process that writes much is in D for moments, and one that reads while storage is slow.
      const bool waits_for_disk =
          report.state.state == 'D' && (reads(report) || !is_frozen(report, options_.frozen_s));
      return !waits_for_disk && !describe(report).empty();
    });
    if (ranks.empty()) return {};
    const RankReport& first = reports_[at(ranks[0])];
    const std::string others =
        ranks.size() == 1 ? "" : fmt::format(", as {} of {}", ranks.size(), reports_.size());
    Verdict found =
        verdict(Kind::rank, true, ranks,
                fmt::format("hang: {} {}{}{}{}", describe_rank(first), describe(first), others,
                            describe_phase(first), describe_waiting(reports_, graph_, first.rank)));
    found.stopped = is_stopped(first);
    return found;
  }

  Verdict mismatches() const {
    const auto found = find_mismatches(pages_, graph_);
    if (found.empty()) return {};
    const Mismatch& first = found[0];
    const JobGroup& group = graph_.groups()[at(first.group)];
    const auto describe = [](const OperationState& operation) {
      const std::string of =
          operation.kind == OperationKind::barrier
              ? ""
              : fmt::format(" of {} {}", operation.count, trireme::name(operation.dtype));
      const std::string root = operation.peer < 0 ? "" : fmt::format(" of rank {}", operation.peer);
      return fmt::format("{}{}{}", observe::name(operation.kind), of, root);
    };
    Verdict verdict_of_program = verdict(
        Kind::program_error, true,
        {std::min(first.first_rank, first.second_rank),
         std::max(first.first_rank, first.second_rank)},
        fmt::format("program error: as operation #{} of {} rank {} began {}, and rank {} {}",
                    first.sequence, describe_group(group), first.first_rank, describe(first.first),
                    first.second_rank, describe(first.second)));
    verdict_of_program.group = describe_group(group);
    return verdict_of_program;
  }

  Verdict all_read() const {
    if (reports_.empty() || !std::all_of(reports_.begin(), reports_.end(), reads)) return {};
    return verdict(Kind::storage, false, ranks_where(reads),
                   fmt::format("hang: all {} ranks read, and none moves: the storage does not "
                               "answer{}",
                               reports_.size(), describe_phase(reports_[0])));
  }

  Verdict frozen() const {
    const auto frozen_ranks =
        ranks_where([&](const RankReport& report) { return is_frozen(report, options_.frozen_s); });
    if (frozen_ranks.empty()) return {};
    if (std::all_of(frozen_ranks.begin(), frozen_ranks.end(),
                    [&](int rank) { return reads(reports_[at(rank)]); })) {
      Verdict slow_storage = culprits(frozen_ranks, false);
      slow_storage.kind = Kind::storage;
      return slow_storage;
    }
    if (frozen_ranks.size() == 1) return culprits(frozen_ranks, true);
    std::vector<int> both;  // those of them that wait for no other
    const std::vector<int> suspects = graph_.suspects();
    std::set_intersection(frozen_ranks.begin(), frozen_ranks.end(), suspects.begin(),
                          suspects.end(), std::back_inserter(both));
    return culprits(both.empty() ? frozen_ranks : both, false);
  }

  Verdict culprits(const std::vector<int>& ranks, bool certain) const {
    const RankReport& first = reports_[at(ranks[0])];
    const bool awaits = first.page && first.page->waits_for == WaitsFor::operations;
    Verdict found = verdict(Kind::rank, certain, ranks, "");
    if (ranks.size() > 1 && found.hosts.size() == 1) found.kind = Kind::node;
    const std::string others =
        ranks.size() == 1 ? ""
                          : fmt::format(", and so {} {} of {}", ranks.size() == 2 ? "is" : "are",
                                        describe_ranks({ranks.begin() + 1, ranks.end()}),
                                        found.hosts.size() == 1 ? "the same node" : "other nodes");
    found.sentence = fmt::format("hang: {} {}{}{}{}", describe_rank(first),
                                 describe_activity(reports_, graph_, ranks[0]),
                                 awaits ? ", without a heartbeat" : "", others,
                                 describe_waiting(reports_, graph_, ranks[0]));
    if (!graph_.awaited(ranks[0]).empty())
      found.group = describe_group(graph_.groups()[at(graph_.awaited(ranks[0])[0].group)]);
    return found;
  }

  /// Ranks wait for some of which nothing is known: they ended before they had a page, perhaps.
  Verdict without_page() const {
    const auto ranks = ranks_where([&](const RankReport& report) {
      return !report.page && !graph_.held_by(report.rank).empty();
    });
    return ranks.empty() ? Verdict{} : culprits(ranks, false);
  }

  /// Ranks wait for some that have finished, or for each other in a circle.
  Verdict left_alone() const {
    const std::vector<int> waiting =
        ranks_where([&](const RankReport& report) { return !graph_.missing(report.rank).empty(); });
    if (waiting.empty()) return {};
    const int first = waiting[0];
    const std::string operation =
        describe_operation(reports_, graph_, graph_.awaited(first).front());
    for (const int rank : waiting)
      for (const int absent : graph_.missing(rank))
        if (at(absent) < reports_.size() && reports_[at(absent)].page &&
            reports_[at(absent)].page->phase == Phase::finished)
          return verdict(
              Kind::program_error, true, {absent},
              fmt::format("program error: {} has finished{}", describe_rank(reports_[at(absent)]),
                          describe_waiting(reports_, graph_, absent)));
    if (!graph_.suspects().empty()) return {};
    return verdict(
        Kind::program_error, true, waiting,
        fmt::format("program error: {} wait for each other in a circle, {} in {}: "
                    "groups are used in different orders",
                    describe_ranks(waiting), describe_rank(reports_[at(first)]), operation));
  }

  /// All wait and poll: the suspects are in an operation whose members have all come.
  Verdict suspected() const {
    const std::vector<int> suspects = graph_.suspects();
    std::vector<int> computing, in_operation;
    for (const int rank : suspects)
      (graph_.awaited(rank).empty() ? computing : in_operation).push_back(rank);
    if (in_operation.empty()) return computing.empty() ? Verdict{} : culprits(computing, false);
    const int first = in_operation[0];
    const Awaited awaited = graph_.awaited(first).front();
    const JobGroup& group = graph_.groups()[at(awaited.group)];
    const double since_s =
        reports_[at(first)].page->age_s(reports_[at(first)].page->waits_since_ns);
    Verdict found = verdict(Kind::group, false, group.members, "");
    found.group = describe_group(group);
    found.sentence =
        group.channel
            ? fmt::format(
                  "hang: {} has waited for {} for {:.1f} s, and rank {} has begun it{}",
                  describe_rank(reports_[at(first)]), describe_operation(reports_, graph_, awaited),
                  since_s,
                  first == group.members.front() ? group.members.back() : group.members.front(),
                  describe_phase(reports_[at(first)]))
            : fmt::format(
                  "hang: all {} ranks of {} have been in {} for {:.1f} s, and it does not "
                  "end{}: its transport, on {}",
                  group.members.size(), found.group, describe_operation(reports_, graph_, awaited),
                  since_s, describe_phase(reports_[at(first)]), describe_hosts(found.hosts));
    return found;
  }

  Verdict no_suspect() const {
    const auto first = std::find_if(reports_.begin(), reports_.end(), [](const RankReport& report) {
      return report.page.has_value();
    });
    const std::string phase = first == reports_.end()
                                  ? ""
                                  : fmt::format(", {} in phase {}", describe_rank(*first),
                                                observe::name(first->page->phase));
    return verdict(
        Kind::none, false, {},
        fmt::format("hang: no rank moves, and none is suspect: {} of {} ranks {} a "
                    "status page{}",
                    pages_.size(), reports_.size(), pages_.size() == 1 ? "has" : "have", phase));
  }

  const std::vector<RankReport>& reports_;
  const JudgeOptions options_;
  const std::vector<PageState> pages_;
  const WaitGraph graph_;
};

}  // namespace

const char* name(Verdict::Kind kind) {
  switch (kind) {
    case Kind::none:
      return "none";
    case Kind::rank:
      return "rank";
    case Kind::node:
      return "node";
    case Kind::group:
      return "group";
    case Kind::program_error:
      return "program error";
    case Kind::node_silent:
      return "silent node";
    case Kind::debugger:
      return "debugger";
    case Kind::stopped:
      return "stopped";
    case Kind::storage:
      return "storage";
    case Kind::exit:
      return "exit";
  }
  return "";
}

RankReport report_of(const PageReader& page) {
  RankReport report;
  report.page = page.read();
  report.rank = report.page->rank;
  report.host = report.page->host;
  const auto state = read_process_state(report.page->pid);
  const bool same = state && state->started_ticks == report.page->started_ticks;
  report.process = same ? RankReport::Process::running : RankReport::Process::ended;
  if (same) report.state = *state;
  return report;
}

Verdict judge(const std::vector<RankReport>& reports, const JudgeOptions& options) {
  return Judge(reports, options).run();
}

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
