#include "launch/supervisor/records/wrong_bits.h"

#include <algorithm>
#include <fstream>

#include "trireme/core/error.h"

namespace trireme::supervisor {
namespace {

/// -1: there is no such number.
Index number_in(const Json& json, const char* name) {
  const Json* found = json.find(name);
  const Index* number = found == nullptr ? nullptr : std::get_if<Index>(&found->value);
  return number == nullptr ? -1 : *number;
}

std::vector<WrongRank> wrong_in(const std::string& line, Index written_in) {
  std::vector<WrongRank> ranks;
  const Json json = parse_json(line);
  if (number_in(json, "attempt") != written_in) return ranks;
  const Json* wrong = json.find("wrong");
  const auto* all = wrong == nullptr ? nullptr : std::get_if<Json::Array>(&wrong->value);
  if (all == nullptr) return ranks;
  for (const Json& each : *all)
    ranks.push_back({number_in(each, "attempt"), number_in(each, "rank")});
  return ranks;
}

}  // namespace

std::vector<WrongRank> wrong_ranks(const std::string& run, Index written_in) {
  std::vector<WrongRank> ranks;
  std::ifstream in(run + "/replicas.jsonl");
  for (std::string line; std::getline(in, line);) {
    try {
      for (const WrongRank& rank : wrong_in(line, written_in)) ranks.push_back(rank);
    } catch (const Error&) {  // a line that a crash has cut
    }
  }
  return ranks;
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
  return last.cause == "corruption" && last.blame.empty();
}

}  // namespace trireme::supervisor
