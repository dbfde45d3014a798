// FakeWorld: a Launcher and its RunFiles, with which attempts go as the test says, and time passes
// only when the supervisor waits.
#pragma once

#include <algorithm>
#include <csignal>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/core/error.h"

#include "launch/supervisor/decide/supervisor.h"
#include "tests/supervisor/fake_program.h"
#include "tests/supervisor/script.h"
#include "tests/support/record.h"

namespace trireme::supervisor::test {

class FakeWorld : public Launcher, public RunFiles, public FakeProgram {
 public:
  std::deque<Script> scripts;
  std::vector<Host> all_hosts;
  mutable int unreadable_lists = 0;  // reads of the list of hosts that fail
  std::function<void()> at_list_read = [] {};
  std::vector<std::string> unfit, unfit_in_long, releases;
  std::string not_checked;                        // why no preflight can be made; empty: it can
  std::vector<std::vector<std::string>> checked;  // hosts of each preflight
  bool mine = true, checks_long = false;          // checks_long: there is a long preflight
  std::vector<std::vector<std::string>> checked_long;
  double preflight_s = 0, layouts_s = 0, reach_s = 0;  // what they take
  int pending = 0;                  // preflights and questions that were not dropped
  Index last_step = 1000000;        // --train-iters
  std::map<Index, Started> starts;  // of attempts that say it
  std::string ledger;
  std::vector<UnfitHost> shown_unfit;
  bool kept_releases = true;  // each request was in the ledger before it was removed
  std::vector<std::string> said, events;
  std::vector<AttemptPlan> plans;
  std::vector<double> started;
  std::vector<Index> saved;  // ascending
  double time = 100;
  Index wall = 1'700'000'000, saved_at = 0;
  int ended = 0, asked = 0;

  double now() const override { return time; }
  Index date() const override { return wall + static_cast<Index>(time); }
  std::string loss_of_run() const override {
    return mine ? "" : "another supervisor has taken over this run";
  }
  std::vector<Host> hosts() const override {
    at_list_read();
    require(unreadable_lists-- <= 0, "hosts: line 2 is cut");
    return all_hosts;
  }
  std::unique_ptr<Pending<Fitness>> preflight(const std::vector<Host>& hosts,
                                              bool thorough) override {
    if (thorough && !checks_long) return nullptr;
    Fitness found{{}, not_checked};
    std::vector<std::string>& names = (thorough ? checked_long : checked).emplace_back();
    for (const Host& host : hosts) {
      names.push_back(host.name);
      for (const std::string& name : thorough ? unfit_in_long : unfit)
        if (name == host.name) found.unfit.push_back({name, "it is broken"});
    }
    return std::make_unique<Later<Fitness>>(time, pending, preflight_s, std::move(found));
  }
  std::vector<Index> durable_steps() const override {
    std::vector<Index> newest(saved.rbegin(), saved.rend());
    if (newest.size() > 2) newest.resize(2);
    return newest;
  }
  Index newest_durable_up_to(Index step) const override {
    const auto after = std::upper_bound(saved.begin(), saved.end(), step);
    return after == saved.begin() ? -1 : *(after - 1);
  }
  bool has_saved_since(Index date) const override { return saved_at >= date; }
  Index iterations() const override { return last_step; }
  Started started_from(Index attempt) const override {
    return starts.contains(attempt) ? starts.at(attempt) : Started();
  }
  bool training_is_finished() const override { return step_ >= last_step; }
  std::unique_ptr<Pending<std::vector<Layout>>> check_layouts(
      const std::vector<std::string>& options, const std::vector<Index>& ranks) override {
    return std::make_unique<Later<std::vector<Layout>>>(time, pending, layouts_s,
                                                        answer(options, ranks));
  }
  std::vector<std::string> released_hosts() const override { return releases; }
  void forget_release(const std::string& host) override {
    kept_releases = kept_releases && ledger.find("\"released\":\"" + host) != std::string::npos;
    std::erase(releases, host);
  }
  void append(const Json& line) override {
    ledger += to_text(line) + "\n";
    trireme::test::record("ledger", to_text(line));
  }
  void show_nodes(const std::vector<NodeState>&, const std::vector<UnfitHost>& hosts) override {
    shown_unfit = hosts;
  }
  void log(const std::string& line) override {
    said.push_back(line);
    trireme::test::record("said", line);
  }
  void notify(const std::string& event, const std::string& line, const Json& facts) override {
    said.push_back(line);
    events.push_back(event);
    trireme::test::record("event", event + ": " + line + ' ' + to_text(facts));
  }
  std::string log_of(Index) const override { return "LOG"; }

  void start(const AttemptPlan& plan) override {
    plans.push_back(plan);
    started.push_back(time);
    script_ = scripts.empty() ? Script{} : scripts.front();
    if (!scripts.empty()) scripts.pop_front();
    running_ = true;
    reported_ = pages_ = false;
    done_ = 0;
    step_ = plan.step >= 0 ? plan.step : saved.empty() ? 0 : saved.back();
    step_ = std::max(step_, script_.snapshot);
  }

  Observation observe(double seconds) override {
    Observation seen;
    seen.signals = std::exchange(signals, {});
    if (!running_ && reported_) {
      time += seconds;
      return look_at(seen);
    }
    if (running_ && script_.start_s > 0) {
      time += std::exchange(script_.start_s, 0.0);
      return look_at(seen);
    }
    if (running_ && done_ == 1 && script_.sleep_s > 0) {
      time += std::exchange(script_.sleep_s, 0.0);
      return look_at(seen);  // nothing has happened meanwhile
    }
    if (!running_ || (done_ >= script_.steps && !script_.hangs)) return ended_with(seen);
    const bool steps = done_ < script_.steps;
    time += seconds > 0 ? (steps ? script_.step_s : 0.1) : 0;
    if (seconds > 0 && steps)
      do_step(seen);
    else
      show_verdict(seen);
    return look_at(seen);
  }
  void request_stop() override {
    ++asked;
    if (!script_.obeys || script_.deaf-- > 0) return;
    if (saved.empty() || saved.back() < step_) saved.push_back(step_);
    const std::vector<GpuSign> signs = script_.signs;
    script_ = Script{.steps = 0, .code = 75};
    script_.signs = signs;
  }
  void end_all() override {
    ++ended;
    if (!running_) return;
    running_ = false;
    script_.code = 128 + SIGKILL;
  }
  std::vector<GpuSign> gpu_signs() const override { return script_.signs; }
  std::vector<SlowHost> slow_hosts() const override { return slow_after(done_, script_); }
  Evidence evidence() const override { return evidence_of(script_); }
  std::unique_ptr<Pending<std::vector<std::string>>> find_unreachable() override {
    return std::make_unique<Later<std::vector<std::string>>>(time, pending, reach_s,
                                                             script_.unreachable);
  }

  std::vector<int> signals;  // at the next look

 private:
  Observation look_at(Observation& seen) const {
    seen.durable = saved.empty() ? 0 : saved.back();
    return std::move(seen);
  }
  Observation ended_with(Observation& seen) {
    if (!reported_) {
      seen.code = script_.code;
      seen.launcher_killed = script_.launcher_killed;
    }
    running_ = false;
    reported_ = true;
    return look_at(seen);
  }
  void show_verdict(Observation& seen) {
    seen.pages = pages_ = pages_ || !script_.verdicts.empty();
    if (script_.verdicts.empty()) return;
    seen.hang = script_.verdicts.front();
    script_.verdicts.pop_front();
  }
  void do_step(Observation& seen) {
    while (!saved.empty() && saved.back() > step_)
      saved.pop_back();  // it went back, and has loaded
    ++done_;
    ++step_;
    seen.steps.push_back({step_, script_.step_s, step_ == script_.spike_at_step, 7.5});
    if (done_ == 2 && script_.at_second_step) script_.at_second_step();
    if (step_ % 10 == 0 || (step_ == last_step && script_.saves_last)) saved.push_back(step_);
    if (done_ == script_.signal_at_step) signals.push_back(SIGTERM);
    if (done_ == 2) wall += static_cast<Index>(script_.clock_jump_s);
  }

  Script script_;
  bool running_ = false, reported_ = true, pages_ = false;
  Index done_ = 0, step_ = 0;
};

}  // namespace trireme::supervisor::test
