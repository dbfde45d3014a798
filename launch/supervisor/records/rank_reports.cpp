#include "launch/supervisor/records/rank_reports.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "trireme/core/error.h"

#include "runtime/observe/gpu_health/health_monitor.h"
#include "runtime/store/file.h"

namespace trireme::supervisor {
std::vector<GpuSign> read_gpu_signs(const std::string& folder, const std::vector<Host>& hosts,
                                    Index ranks) {
  constexpr Index most_bytes = Index{1} << 20;
  std::vector<GpuSign> signs;
  std::error_code missing;
  if (!std::filesystem::is_directory(folder, missing)) return signs;
  for (const std::string& name : list_directory(folder)) {
    std::string text;
    try {
      text = read_whole(folder + "/" + name, most_bytes);
    } catch (const Error&) {  // another host is writing it
      continue;
    }
    for (const observe::HealthReport& report : observe::parse_health_reports(text)) {
      const Index count = std::max<Index>(1, std::ssize(hosts));
      signs.push_back({listed_name(report.host, report.rank, hosts, ranks / count), report.action,
                       report.text});
    }
  }
  return signs;
}

bool has_sign(const std::vector<GpuSign>& signs, observe::HealthAction action) {
  return std::any_of(signs.begin(), signs.end(),
                     [&](const GpuSign& sign) { return sign.action == action; });
}

std::vector<Blame> blame_for(const std::vector<GpuSign>& signs) {
  std::vector<Blame> blame;
  std::set<std::string> out;
  for (const GpuSign& sign : signs) {
    if (sign.host.empty()) continue;
    const bool first_fatal =
        sign.action == observe::HealthAction::fatal && out.insert(sign.host).second;
    blame.push_back({sign.host, first_fatal ? quarantine_points : 0, sign.text});
  }
  return blame;
}

namespace {

/// -1: there is no such number.
Index number_in(const Json& json, const char* name) {
  const Json* found = json.find(name);
  const Index* number = found == nullptr ? nullptr : std::get_if<Index>(&found->value);
  return number == nullptr ? -1 : *number;
}

std::vector<WrongRank> wrong_in(const Json& json) {
  std::vector<WrongRank> ranks;
  const Json* wrong = json.find("wrong");
  const auto* all = wrong == nullptr ? nullptr : std::get_if<Json::Array>(&wrong->value);
  if (all == nullptr) return ranks;
  for (const Json& each : *all)
    ranks.push_back({number_in(each, "attempt"), number_in(each, "rank")});
  return ranks;
}

/// The records of an attempt.
std::vector<Json> records_of(const std::string& run, Index written_in) {
  constexpr Index most_bytes = Index{16} << 20;  // the newest ones
  std::vector<Json> records;
  std::istringstream in;
  try {
    in.str(read_last_lines(run + "/replicas.jsonl", most_bytes));
  } catch (const Error&) {  // it cannot be read
  }
  for (std::string line; std::getline(in, line);) {
    try {
      Json json = parse_json(line);
      if (number_in(json, "attempt") == written_in) records.push_back(std::move(json));
    } catch (const Error&) {  // a line that a crash has cut
    }
  }
  return records;
}

}  // namespace

std::vector<WrongRank> wrong_ranks(const std::string& run, Index written_in) {
  std::vector<WrongRank> ranks;
  for (const Json& record : records_of(run, written_in))
    for (const WrongRank& rank : wrong_in(record)) ranks.push_back(rank);
  return ranks;
}

std::optional<Index> newest_clean_step(const std::string& run, Index written_in) {
  const std::vector<Json> records = records_of(run, written_in);
  if (records.empty() || records.back().find("clean") == nullptr) return std::nullopt;
  return number_in(records.back(), "clean");
}

std::vector<std::string> hosts_of(const std::vector<WrongRank>& ranks, const History& history) {
  std::vector<std::string> hosts;
  for (const WrongRank& wrong : ranks)
    for (const Attempt& attempt : history.attempts) {
      const auto nodes = static_cast<Index>(attempt.began.nodes.size());
      if (attempt.began.attempt != wrong.attempt || nodes == 0 || wrong.rank < 0 ||
          wrong.rank >= attempt.began.ranks)
        continue;
      const Index slots = attempt.began.slots;
      const Index place = slots > 0 ? std::min(wrong.rank / slots, nodes - 1)
                                    : wrong.rank * nodes / attempt.began.ranks;
      const std::string& host = attempt.began.nodes[static_cast<std::size_t>(place)];
      if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
    }
  return hosts;
}

bool swaps_hosts(const History& history) {
  if (history.attempts.empty() || !history.attempts.back().ended) return false;
  const AttemptEnded& last = *history.attempts.back().ended;
  return last.cause == Cause::corruption &&
         std::none_of(last.blame.begin(), last.blame.end(),
                      [](const Blame& blame) { return blame.points > 0; });
}

}  // namespace trireme::supervisor
