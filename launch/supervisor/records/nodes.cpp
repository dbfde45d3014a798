#include "launch/supervisor/records/nodes.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "trireme/core/error.h"

#include "runtime/core/text/one_line.h"
#include "runtime/observe/hang/verdict.h"

namespace trireme::supervisor {
namespace {

/// The whole text as a positive number; 0: it is none.
Index slots_of(const std::string& text) {
  constexpr std::size_t most_digits = 6;
  if (text.empty() || text.size() > most_digits ||
      text.find_first_not_of("0123456789") != std::string::npos)
    return 0;
  return std::stoll(text);
}

/// A name becomes a word of a command line, and is shown on terminals. It may begin with a user,
/// as in "ann@node1".
bool is_name_of_host(const std::string& text) {
  constexpr const char* allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@";
  return text.find_first_not_of(allowed) == std::string::npos && !text.starts_with('-') &&
         text.find("@-") == std::string::npos;
}

Host parse_host(const std::string& line, Index default_slots) {
  std::istringstream words(line);
  Host host{"", default_slots};
  words >> host.name;
  const std::string given = host.name;
  if (const std::size_t colon = host.name.rfind(':'); colon != std::string::npos) {
    host.slots = slots_of(host.name.substr(colon + 1));
    host.name.resize(colon);
  }
  for (std::string word; words >> word;) {
    const bool slots = word.starts_with("slots=");
    require(slots || word.starts_with("max_slots=") || word.starts_with("max-slots="), "'", word,
            "' has no meaning there; right is HOST slots=N");
    if (slots) host.slots = slots_of(word.substr(std::string("slots=").size()));
  }
  require(!host.name.empty() && host.slots > 0, "right is HOST slots=N, N >= 1");
  require(is_name_of_host(host.name), "'", one_line(given, most_of_a_name),
          "' is no name of a host: it has letters, digits and . _ - @ only, and begins with no -");
  return host;
}

/// Whether a fault of the program can end an attempt so. It loses no host, silences none, and
/// breaks no GPU.
bool may_be_of_the_program(const AttemptEnded& ended) {
  const Cause cause = ended.cause;
  if (cause == Cause::hang &&
      ended.signature.ends_with(observe::name(observe::Verdict::Kind::node_silent)))
    return false;
  return cause == Cause::killed || cause == Cause::crashed || cause == Cause::hang ||
         cause == Cause::failed;
}

/// By host: attempts before this one no longer count.
std::map<std::string, std::size_t> releases_of(const History& history) {
  std::map<std::string, std::size_t> released;
  for (const Release& release : history.releases) released[release.host] = release.after;
  return released;
}

/// An attempt and the hosts that it blames.
struct Suspicion {
  std::size_t attempt;
  Index at;
  std::set<std::string> hosts;
};

/// Attempts with a signature that has blamed three hosts within the window.
std::set<std::size_t> faults_of_the_program(const History& history) {
  constexpr std::size_t hosts_of_a_program = 3;
  const auto released = releases_of(history);
  std::map<std::string, std::vector<Suspicion>> by_signature;
  for (std::size_t i = 0; i < history.attempts.size(); ++i) {
    const auto& ended = history.attempts[i].ended;
    if (!ended || !may_be_of_the_program(*ended)) continue;
    Suspicion suspicion{i, ended->at, {}};
    for (const Blame& blame : ended->blame) {
      const auto release = released.find(blame.host);
      if (blame.points > 0 && (release == released.end() || i >= release->second))
        suspicion.hosts.insert(blame.host);
    }
    if (!suspicion.hosts.empty()) by_signature[ended->signature].push_back(std::move(suspicion));
  }
  std::set<std::size_t> found;
  for (const auto& [signature, all] : by_signature)
    for (const Suspicion& first : all) {
      std::set<std::string> hosts;
      std::set<std::size_t> attempts;
      for (const Suspicion& each : all) {
        if (each.at < first.at || each.at - first.at > quarantine_window_s) continue;
        hosts.insert(each.hosts.begin(), each.hosts.end());
        attempts.insert(each.attempt);
      }
      if (hosts.size() >= hosts_of_a_program) found.insert(attempts.begin(), attempts.end());
    }
  return found;
}

/// What one host was blamed for, in order.
class Record {
 public:
  struct Entry {
    Index at, points;
    std::string why;
  };
  void add(Entry entry) {
    entries_.push_back(std::move(entry));
    quarantined_ = quarantined_ || points() >= quarantine_points;
  }
  /// Leaves out what no longer counts: entries that are too old; in quarantine all of them, or
  /// none.
  void forget(Index now, Index quarantine_s) {
    if (quarantined_ && now - entries_.back().at > quarantine_s) *this = {};
    if (!quarantined_)
      std::erase_if(entries_,
                    [&](const Entry& entry) { return now - entry.at > quarantine_window_s; });
  }
  bool empty() const { return entries_.empty(); }
  NodeState state(const std::string& host) const {
    NodeState state{host, points(), false, {}};
    for (const Entry& entry : entries_) {
      state.lost = state.lost || entry.points > 1;
      state.reasons.push_back(entry.why);
    }
    return state;
  }

 private:
  Index points() const {
    Index sum = 0;
    for (const Entry& entry : entries_) sum += entry.points;
    return sum;
  }

  std::vector<Entry> entries_;
  bool quarantined_ = false;
};

/// --quarantine of the last supervisor. Ledgers of before it have none.
Index quarantine_of(const History& history) {
  const Index given = history.supervisions.empty() ? 0 : history.supervisions.back().quarantine_s;
  return given > 0 ? given : quarantine_window_s;
}

const NodeState* state_of(const std::vector<NodeState>& states, const std::string& host) {
  for (const NodeState& state : states)
    if (state.host == host) return &state;
  return nullptr;
}

std::string short_name(const std::string& host) { return host.substr(0, host.find('.')); }

}  // namespace

std::vector<Host> parse_hosts(const std::string& text, Index default_slots) {
  std::vector<Host> hosts;
  std::istringstream lines(text);
  Index number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      const Host host = parse_host(line, default_slots);
      const auto same = [&](const Host& each) { return each.name == host.name; };
      require(std::none_of(hosts.begin(), hosts.end(), same), host.name, " is there twice");
      hosts.push_back(host);
    } catch (const Error& error) {
      throw Error(str("line ", number, ": ", error.what()));
    }
  }
  return hosts;
}

std::string listed_name(const std::string& own_name, Index rank, const std::vector<Host>& hosts,
                        Index ranks_of_each) {
  if (hosts.empty()) return "";
  for (const Host& host : hosts)
    if (host.name == own_name) return host.name;
  for (const Host& host : hosts)
    if (short_name(host.name) == short_name(own_name)) return host.name;
  const Index place =
      std::clamp<Index>(rank / std::max<Index>(1, ranks_of_each), 0, std::ssize(hosts) - 1);
  return hosts[static_cast<std::size_t>(place)].name;
}

std::vector<NodeState> node_states(const History& history, Index now) {
  const std::set<std::size_t> forgiven = faults_of_the_program(history);
  const Index quarantine_s = quarantine_of(history);
  const auto released = releases_of(history);
  std::map<std::string, Record> records;
  for (std::size_t i = 0; i < history.attempts.size(); ++i) {
    const Attempt& attempt = history.attempts[i];
    if (!attempt.ended || forgiven.contains(i)) continue;
    for (const Blame& blame : attempt.ended->blame) {
      const auto release = released.find(blame.host);
      if (release != released.end() && i < release->second) continue;
      Record& record = records[blame.host];
      record.forget(attempt.ended->at, quarantine_s);
      record.add({attempt.ended->at, blame.points,
                  str("attempt ", attempt.began.attempt, ": ", blame.why)});
    }
  }
  std::vector<NodeState> all;
  for (auto& [host, record] : records) {
    record.forget(now, quarantine_s);
    if (!record.empty()) all.push_back(record.state(host));
  }
  return all;
}

std::set<std::string> hosts_to_leave(const History& history, Index now) {
  std::set<std::string> hosts;
  for (const Leave& leave : history.leaves) {
    bool released = false;
    for (std::size_t i = leave.after; i < history.releases.size(); ++i)
      released = released || history.releases[i].host == leave.host;
    if (!released && now - leave.at <= quarantine_of(history)) hosts.insert(leave.host);
  }
  return hosts;
}

Json to_json(const std::vector<NodeState>& states) {
  Json::Array nodes;
  for (const NodeState& state : states)
    nodes.emplace_back(
        Json::Object{{"host", state.host},
                     {"points", state.points},
                     {"quarantined", state.quarantined()},
                     {"reasons", Json::Array(state.reasons.begin(), state.reasons.end())}});
  return Json::Object{{"nodes", std::move(nodes)}};
}

std::vector<Host> pick_hosts(const std::vector<Host>& hosts, const std::vector<NodeState>& states,
                             const std::vector<std::string>& before, Index count) {
  std::vector<Host> healthy, reserve, last;
  for (const Host& host : hosts) {
    const NodeState* state = state_of(states, host.name);
    if (state == nullptr || !(state->lost || state->quarantined()))
      healthy.push_back(host);
    else if (!state->quarantined())
      reserve.push_back(host);
    else if (!state->lost)
      last.push_back(host);
  }
  const auto wanted = static_cast<std::size_t>(count);
  for (const auto& more : {reserve, last})
    for (const Host& host : more)
      if (healthy.size() < wanted) healthy.push_back(host);
  if (healthy.size() < wanted) return {};

  std::vector<Host> picked(wanted, Host{"", 0});
  for (std::size_t place = 0; place < std::min(wanted, before.size()); ++place) {
    const auto same = std::find_if(healthy.begin(), healthy.end(),
                                   [&](const Host& host) { return host.name == before[place]; });
    if (same == healthy.end()) continue;
    picked[place] = *same;
    healthy.erase(same);
  }
  auto next = healthy.begin();
  for (Host& place : picked)
    if (place.name.empty()) place = *next++;
  return picked;
}

}  // namespace trireme::supervisor
