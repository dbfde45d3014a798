#include "runtime/train/numerics/replica_votes.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/core/json.h"
#include "runtime/core/parse_number.h"

namespace trireme::train {
namespace {

// Hashes are text, because a number of JSON is a signed one here.
Json json_of(const BucketVote& vote) {
  Json::Array hashes, ranks;
  for (const std::uint64_t hash : vote.hashes) hashes.emplace_back(fmt::format("{:016x}", hash));
  for (const int rank : vote.ranks) ranks.emplace_back(rank);
  return Json::Object{{"place", vote.place},
                      {"names", vote.names},
                      {"hashes", std::move(hashes)},
                      {"ranks", std::move(ranks)}};
}

Json json_of(const ReplicaHolder& holder) {
  return Json::Object{{"attempt", holder.attempt}, {"rank", holder.rank}, {"host", holder.host}};
}

/// Throws: Error when there is no such member of this type.
template <class T>
const T& member(const Json& json, const char* name) {
  const Json* found = json.find(name);
  require(found != nullptr && std::holds_alternative<T>(found->value), "no ", name);
  return std::get<T>(found->value);
}

int rank_in(const Json* json) {
  const Index* rank = json == nullptr ? nullptr : std::get_if<Index>(&json->value);
  constexpr Index most = 1 << 30;
  require(rank != nullptr && *rank >= 0 && *rank < most, "no rank");
  return static_cast<int>(*rank);
}

std::uint64_t hash_in(const Json& json) {
  const std::string* text = std::get_if<std::string>(&json.value);
  require(text != nullptr, "no hash");
  const auto hash = parse_number<std::uint64_t>(*text, 16);
  require(hash.has_value(), "no hash");
  return *hash;
}

BucketVote vote_in(const Json& json) {
  BucketVote vote{member<std::string>(json, "place"), member<std::string>(json, "names"), {}, {}};
  for (const Json& hash : member<Json::Array>(json, "hashes")) vote.hashes.push_back(hash_in(hash));
  for (const Json& rank : member<Json::Array>(json, "ranks")) vote.ranks.push_back(rank_in(&rank));
  require(vote.hashes.size() == vote.ranks.size(), "not as many hashes as ranks");
  return vote;
}

ReplicaRecord record_in(const Json& json) {
  ReplicaRecord record;
  record.step = member<Index>(json, "step");
  record.attempt = member<Index>(json, "attempt");
  record.layout = member<std::string>(json, "layout");
  for (const Json& host : member<Json::Array>(json, "hosts")) {
    require(std::holds_alternative<std::string>(host.value), "no host");
    record.hosts.push_back(std::get<std::string>(host.value));
  }
  for (const Json& vote : member<Json::Array>(json, "votes")) record.votes.push_back(vote_in(vote));
  for (const Json& wrong : member<Json::Array>(json, "wrong"))
    record.wrong.push_back({member<Index>(wrong, "attempt"), rank_in(wrong.find("rank")),
                            member<std::string>(wrong, "host")});
  if (json.find("clean") != nullptr) record.clean = member<Index>(json, "clean");
  return record;
}

struct Ballot {
  std::uint64_t hash;
  ReplicaHolder by;
  std::size_t record;
};

ReplicaHolder holder(const ReplicaRecord& record, int rank) {
  const auto place = static_cast<std::size_t>(rank);
  return {record.attempt, rank, place < record.hosts.size() ? record.hosts[place] : ""};
}

/// The hash that most have; nothing where two are held equally often, or each only once.
std::optional<std::uint64_t> elected(const std::vector<Ballot>& ballots) {
  std::map<std::uint64_t, int> votes;
  for (const Ballot& ballot : ballots) ++votes[ballot.hash];
  std::pair<std::uint64_t, int> best = {0, 1};
  bool alone = false;
  for (const auto& [hash, count] : votes) {
    if (count > best.second)
      alone = true;
    else if (count == best.second)
      alone = false;
    if (count >= best.second) best = {hash, count};
  }
  if (!alone) return std::nullopt;
  return best.first;
}

}  // namespace

std::string to_line(const ReplicaRecord& record) {
  Json::Array votes, wrong;
  for (const BucketVote& vote : record.votes) votes.push_back(json_of(vote));
  for (const ReplicaHolder& holder : record.wrong) wrong.push_back(json_of(holder));
  Json::Object all{
      {"step", record.step},       {"attempt", record.attempt},
      {"layout", record.layout},   {"hosts", Json::Array(record.hosts.begin(), record.hosts.end())},
      {"votes", std::move(votes)}, {"wrong", std::move(wrong)}};
  if (record.clean) all.emplace_back("clean", *record.clean);
  return to_text(Json(std::move(all))) + "\n";
}

std::optional<ReplicaRecord> parse_replica_record(std::string_view line) {
  try {
    return record_in(parse_json(line));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<ReplicaHolder> outvoted(const std::vector<ReplicaRecord>& records) {
  std::map<std::string, std::vector<Ballot>> places;
  for (std::size_t r = 0; r < records.size(); ++r)
    for (const BucketVote& vote : records[r].votes)
      for (std::size_t i = 0; i < vote.hashes.size(); ++i)
        places[vote.place].push_back({vote.hashes[i], holder(records[r], vote.ranks[i]), r});
  std::vector<ReplicaHolder> wrong;
  for (const auto& [place, ballots] : places) {
    const std::optional<std::uint64_t> right = elected(ballots);
    if (!right) continue;
    const auto has_right = [&, &all = ballots](std::size_t record) {
      return std::any_of(all.begin(), all.end(), [&](const Ballot& each) {
        return each.record == record && each.hash == *right;
      });
    };
    for (const Ballot& ballot : ballots)
      if (ballot.hash != *right && has_right(ballot.record) &&
          std::find(wrong.begin(), wrong.end(), ballot.by) == wrong.end())
        wrong.push_back(ballot.by);
  }
  return wrong;
}

std::vector<ReplicaRecord> undecided(std::string_view file, const std::string& layout) {
  std::vector<ReplicaRecord> records;
  while (!file.empty()) {
    const std::string_view line = file.substr(0, file.find('\n'));
    file.remove_prefix(std::min(file.size(), line.size() + 1));
    std::optional<ReplicaRecord> record = parse_replica_record(line);
    if (!record || record->of_step_done_twice()) continue;
    if (!records.empty() &&
        (records.back().step != record->step || records.back().layout != record->layout))
      records.clear();
    if (record->wrong.empty() && record->layout == layout)
      records.push_back(std::move(*record));
    else
      records.clear();
  }
  return records;
}

std::string describe(const std::vector<ReplicaHolder>& holders, Index this_attempt) {
  std::string text;
  for (const ReplicaHolder& holder : holders) {
    text += str(text.empty() ? "" : ", ", "rank ", holder.rank, " on ", holder.host);
    if (holder.attempt != this_attempt) text += str(" in attempt ", holder.attempt);
  }
  return text;
}

}  // namespace trireme::train
