#include "launch/supervisor/decide/interventions.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>

#include "trireme/core/error.h"

namespace trireme::supervisor {
namespace {

constexpr double look_at_hosts_s = 2;  // between two looks at signs of GPUs, and at slow hosts

Move without(const Leave& leave) {
  return {"replacing",
          fmt::format("{}: {}: asks the job to save and end, to continue without this host",
                      leave.host, leave.why),
          Json::Object{{"host", leave.host}, {"why", leave.why}}, leave};
}

/// The time between two looks at something.
class Interval {
 public:
  Interval(double interval_s, double last) : interval_s_(interval_s), last_(last) {}
  bool is_over(double now) const { return now - last_ >= interval_s_; }
  void restart(double now) { last_ = now; }

 private:
  const double interval_s_;
  double last_;
};

/// An attempt on fewer hosts than --nodes stops when a larger layout is worth a restart.
class Grow : public Intervention, Part {
 public:
  Grow(const AttemptWatch& attempt, Session& session, Hosts& hosts, Layouts& layouts)
      : Part(session),
        hosts_(hosts),
        layouts_(layouts),
        interval_(settings_.grow_interval_s, attempt.began()) {}

  std::optional<Move> consider(const AttemptWatch& attempt) override {
    const bool is_due = interval_.is_over(launcher_.now());
    if (!is_due && !asks_) return std::nullopt;
    AttemptPlan larger;
    bool found = false;
    try {
      if (is_due) hosts_.apply_releases();
      interval_.restart(launcher_.now());
      // The job is watched while the program is asked.
      asks_ = !layouts_.with([&] { found = hosts_.choose(larger); });
      if (asks_ || !found) return std::nullopt;
    } catch (const Error& error) {  // a file of hosts that is just being written, for example
      asks_ = false;
      launcher_.log(std::string("--grow: ") + error.what());
      return std::nullopt;
    }
    if (!is_worth_a_restart({.ranks_now = attempt.plan().ranks,
                             .ranks = larger.ranks,
                             .remaining_s = attempt.seconds_to(files_.iterations()),
                             .save_s = attempt.save_s(),
                             .start_s = attempt.start_s()}))
      return std::nullopt;
    return Move{"growing",
                fmt::format("hosts are back: asks the job to save and end, to continue as {} in "
                            "place of {}",
                            larger.layout.text(), attempt.plan().layout.text()),
                Json::Object{{"layout", larger.layout.text()}}};
  }

 private:
  Hosts& hosts_;
  Layouts& layouts_;
  Interval interval_;
  bool asks_ = false;  // the program, what more hosts could run
};

/// A host whose GPU asks for a repair soon is left when it shows that for the first time, and a
/// spare can take its place.
class LeaveForRepair : public Intervention, Part {
 public:
  LeaveForRepair(Session& session, Hosts& hosts) : Part(session), hosts_(hosts) {}

  std::optional<Move> consider(const AttemptWatch& attempt) override {
    if (!interval_.is_over(launcher_.now())) return std::nullopt;
    interval_.restart(launcher_.now());
    for (const GpuSign& sign : launcher_.gpu_signs()) {
      if (sign.action != observe::HealthAction::leave ||
          !contains(attempt.plan().hosts, sign.host) ||
          hosts_to_leave(history_, launcher_.date()).contains(sign.host))
        continue;
      const auto can = hosts_.can_do_without(attempt.plan(), sign.host);
      if (!can) return std::nullopt;
      const Leave line{sign.host, launcher_.date(), sign.text};
      session_.record(line);  // also a supervisor that is started again does without it
      if (*can) return without(line);
    }
    return std::nullopt;
  }

 private:
  Hosts& hosts_;
  Interval interval_{look_at_hosts_s, 0};
};

// Each look at slow hosts judges the last 20 steps: slow in all looks over so many means for 60.
constexpr Index slow_steps = 40;
constexpr Index most_in_window = 3;      // replacements in 24 hours
constexpr double look_for_spare_s = 60;  // again, where none was there

/// Returns the hosts that have taken the place of a slow one.
std::set<std::string> heirs_of_stragglers(const History& history) {
  std::set<std::string> heirs;
  for (std::size_t i = 0; i + 1 < history.attempts.size(); ++i) {
    const Attempt& attempt = history.attempts[i];
    if (!attempt.ended || attempt.ended->cause != Cause::replacement) continue;
    const auto& before = attempt.began.nodes;
    const auto& after = history.attempts[i + 1].began.nodes;
    for (const Leave& leave : history.leaves)
      for (std::size_t place = 0; place < std::min(before.size(), after.size()); ++place)
        if (leave.slow && before[place] == leave.host && after[place] != leave.host)
          heirs.insert(after[place]);
  }
  return heirs;
}

/// A host with a rank that stays slow is left while a spare can take its place. Limits keep it from
/// replacing one host after another for what is no host's fault.
class ReplaceStraggler : public Intervention, Part {
 public:
  ReplaceStraggler(Session& session, Hosts& hosts) : Part(session), hosts_(hosts) {}

  std::optional<Move> consider(const AttemptWatch& attempt) override {
    if (!interval_.is_over(launcher_.now())) return std::nullopt;
    interval_.restart(launcher_.now());
    const std::vector<SlowHost> slow = launcher_.slow_hosts();
    std::erase_if(since_, [&](const auto& since) {
      return std::none_of(slow.begin(), slow.end(),
                          [&](const SlowHost& each) { return each.host == since.first; });
    });
    for (const SlowHost& each : slow) {
      const Index since = since_.try_emplace(each.host, attempt.last_step()).first->second;
      if (attempt.last_step() - since < slow_steps) continue;
      const auto stays = why_it_stays(attempt, each);
      if (!stays) return std::nullopt;
      if (stays->empty()) {
        const Leave line{each.host, launcher_.date(), each.why, true};
        session_.record(line);
        return without(line);
      }
      if (said_.insert(each.host).second)
        launcher_.log(fmt::format("{}: {}: it stays: {}", each.host, each.why, *stays));
    }
    return std::nullopt;
  }

 private:
  /// Returns "" where it may be replaced; nothing where that is not known yet.
  std::optional<std::string> why_it_stays(const AttemptWatch& attempt, const SlowHost& slow) {
    if (heirs_of_stragglers(history_).contains(slow.host))
      return "the host before it was slow at this place too: the program or the data may be why";
    const Index date = launcher_.date();
    if (std::count_if(history_.leaves.begin(), history_.leaves.end(), [&](const Leave& leave) {
          return leave.slow && date - leave.at <= quarantine_window_s;
        }) >= most_in_window)
      return fmt::format("{} slow hosts were replaced within 24 hours", most_in_window);
    const Index iterations = files_.iterations();
    if (iterations >= 0 && attempt.seconds_to(iterations) * (1 - 1 / slow.ratio) <=
                               attempt.save_s() + attempt.start_s())
      return "a restart costs more than it gains";
    const char* no_spare = "no spare can take its place";
    const double now = launcher_.now();
    const auto looked = no_spare_.find(slow.host);
    if (looked != no_spare_.end() && now - looked->second < look_for_spare_s) return no_spare;
    const auto can = hosts_.can_do_without(attempt.plan(), slow.host);  // reads the list of hosts
    if (!can) return std::nullopt;
    if (*can) return "";
    no_spare_[slow.host] = now;
    return no_spare;
  }

  Hosts& hosts_;
  Interval interval_{look_at_hosts_s, 0};
  std::map<std::string, Index> since_;      // slow hosts, and the step at which they were so first
  std::set<std::string> said_;              // slow hosts that stay
  std::map<std::string, double> no_spare_;  // hosts for which there was none, and when
};

}  // namespace

bool is_worth_a_restart(const Growth& growth) {
  if (growth.ranks <= growth.ranks_now || growth.ranks_now < 1) return false;
  const double more = static_cast<double>(growth.ranks) / static_cast<double>(growth.ranks_now) - 1;
  return more * growth.remaining_s > 3 * (growth.save_s + growth.start_s);
}

std::vector<std::unique_ptr<Intervention>> interventions_in(const AttemptWatch& attempt,
                                                            Session& session, Hosts& hosts,
                                                            Layouts& layouts) {
  std::vector<std::unique_ptr<Intervention>> all;
  if (session.settings.grow && attempt.plan().fewer)
    all.push_back(std::make_unique<Grow>(attempt, session, hosts, layouts));
  if (attempt.plan().hosts.empty()) return all;
  all.push_back(std::make_unique<LeaveForRepair>(session, hosts));
  if (session.settings.replace_stragglers)
    all.push_back(std::make_unique<ReplaceStraggler>(session, hosts));
  return all;
}

}  // namespace trireme::supervisor
