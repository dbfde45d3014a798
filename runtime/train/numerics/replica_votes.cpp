#include "runtime/train/numerics/replica_votes.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/core/json/json_record.h"
#include "runtime/core/parse_number.h"

namespace trireme::train {
namespace {

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

namespace {

constexpr int most_rank = (1 << 30) - 1;

std::vector<std::string> texts_of(const std::vector<std::uint64_t>& hashes) {
  std::vector<std::string> texts;
  for (const std::uint64_t hash : hashes) texts.push_back(fmt::format("{:016x}", hash));
  return texts;
}

std::optional<std::vector<std::uint64_t>> hashes_of(const std::vector<std::string>& texts) {
  std::vector<std::uint64_t> hashes;
  for (const std::string& text : texts) {
    const auto hash = parse_number<std::uint64_t>(text, 16);
    if (!hash) return std::nullopt;
    hashes.push_back(*hash);
  }
  return hashes;
}

}  // namespace

void describe(RecordOf<BucketVote> auto& vote, auto& member) {
  member("place", vote.place);
  member("names", vote.names);
  // As text: a number of JSON is a signed one here.
  member("hashes", converted(vote.hashes, texts_of, hashes_of, "hashes in hexadecimal digits"));
  member("ranks", vote.ranks);
}

void describe(RecordOf<ReplicaHolder> auto& holder, auto& member) {
  member("attempt", holder.attempt);
  member("rank", within(holder.rank, 0, most_rank));
  member("host", holder.host);
}

void describe(RecordOf<ReplicaRecord> auto& record, auto& member) {
  member("step", record.step);
  member("attempt", record.attempt);
  member("layout", record.layout);
  member("hosts", record.hosts);
  member("votes", record.votes);
  member("wrong", record.wrong);
  member.when(record.clean.has_value(), "clean", record.clean);
}

std::string to_line(const ReplicaRecord& record) { return to_text(to_json(record)) + "\n"; }

std::optional<ReplicaRecord> parse_replica_record(std::string_view line) {
  try {
    auto record = from_json<ReplicaRecord>(parse_json(line));
    for (const BucketVote& vote : record.votes) {
      const auto is_rank = [](int rank) { return 0 <= rank && rank <= most_rank; };
      require(vote.hashes.size() == vote.ranks.size(), "not as many hashes as ranks");
      require(std::all_of(vote.ranks.begin(), vote.ranks.end(), is_rank), "no rank");
    }
    return record;
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
