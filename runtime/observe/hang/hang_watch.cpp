#include "runtime/observe/hang/hang_watch.h"

#include <algorithm>

namespace trireme::observe {

namespace {

/// A longer gap than the first step may have was a pause, such as that of a debugger: a job with
/// such ops would not have come beyond its first step.
double gap_limit_s(double gap_s, const HangLimits& limits) {
  return limits.gaps * std::min(gap_s, std::max(limits.step_s, limits.first_step_s));
}

template <class Predicate>
bool all(const std::vector<RankProgress>& ranks, Predicate predicate) {
  return std::all_of(ranks.begin(), ranks.end(), predicate);
}

}  // namespace

double hang_limit_s(const RankProgress& rank, const JobFacts& job, const HangLimits& limits) {
  switch (rank.phase) {
    case Phase::start:
    case Phase::sweep:
    case Phase::mpi_init:
    case Phase::mesh:
    case Phase::plan:
      return limits.start_s + limits.start_s_per_rank * job.ranks;
    case Phase::program:
      return limits.program_s;
    case Phase::load:
      return limits.load_s;  // without any read; see StatusPage::progressed()
    case Phase::warm_up:
      return limits.first_step_s;
    case Phase::step:
      return rank.longest_gap_s > 0
                 ? std::max(limits.step_s, gap_limit_s(rank.longest_gap_s, limits))
                 : std::max(limits.step_s, limits.first_step_s);
    case Phase::evaluate:
      return std::max({limits.step_s, limits.evaluate_s, gap_limit_s(rank.longest_gap_s, limits)});
    case Phase::save_wait:
    case Phase::finish:
      return limits.save_s;
    case Phase::finished:
    case Phase::failed:
      break;  // the other ranks decide
  }
  return 0;
}

double HangWatch::limit_s(const std::vector<RankProgress>& ranks) const {
  if (ranks.empty()) return hang_limit_s({}, job_, limits_);
  const bool all_have_ended = all(ranks, [](const RankProgress& rank) {
    return rank.phase == Phase::finished || rank.phase == Phase::failed;
  });
  if (all_have_ended) return std::max(limits_.step_s, limits_.exit_s);
  double limit = std::max(limits_.step_s, gap_limit_s(longest_quiet_s_, limits_));
  for (const RankProgress& rank : ranks) limit = std::max(limit, hang_limit_s(rank, job_, limits_));
  return limit;
}

bool HangWatch::has_moved(const std::vector<RankProgress>& ranks) const {
  return !std::equal(ranks.begin(), ranks.end(), before_.begin(), before_.end(),
                     [](const RankProgress& now, const RankProgress& before) {
                       return now.ops == before.ops && now.phase == before.phase;
                     });
}

/// A collective over a slow network may take long in every step: then no rank moves meanwhile.
void HangWatch::learn(double now_s, const std::vector<RankProgress>& ranks) {
  const bool in_steps =
      all(before_, [](const RankProgress& rank) { return rank.phase == Phase::step; });
  const bool warm = all(ranks, [](const RankProgress& rank) { return rank.longest_gap_s > 0; });
  if (in_steps && warm) longest_quiet_s_ = std::max(longest_quiet_s_, now_s - quiet_since_s_);
}

void HangWatch::restart(double now_s) {
  quiet_since_s_ = now_s;
  logged_ = false;
}

HangWatch::Decision HangWatch::poll(double now_s, const std::vector<RankProgress>& ranks,
                                    const std::function<Verdict()>& ask) {
  const double limit_s = this->limit_s(ranks);
  // This process was stopped, or the machine was: the ranks probably were too.
  const bool late = polled_s_ && now_s - *polled_s_ > limit_s / 2;
  const bool moved = has_moved(ranks);
  if (polled_s_ && !late && !paused_ && moved) learn(now_s, ranks);
  if (!polled_s_ || late || moved) restart(now_s);
  polled_s_ = now_s;
  before_ = ranks;

  Decision decision{Action::none, now_s - quiet_since_s_, limit_s, {}};
  const double least_s = std::max(limits_.step_s, gap_limit_s(longest_quiet_s_, limits_));
  if (decision.quiet_s < std::min(limit_s, least_s) && !paused_) return decision;
  decision.verdict = ask();
  const Verdict& verdict = decision.verdict;
  if (decision.quiet_s < limit_s && !paused_ && !verdict.stopped) return decision;
  const bool was_paused = paused_;
  paused_ = verdict.kind == Verdict::Kind::debugger || verdict.kind == Verdict::Kind::stopped;
  if (paused_ || was_paused) {
    restart(now_s);  // this time is none of the job's
    if (paused_ && !was_paused) decision.action = Action::log;
    return decision;
  }
  const bool storage = verdict.kind == Verdict::Kind::storage;
  const double end_s = verdict.stopped ? std::min(limit_s, least_s)
                                       : limit_s * (storage           ? limits_.storage
                                                    : verdict.certain ? 1
                                                                      : 2);
  if (decision.quiet_s >= end_s)
    decision.action = Action::end;
  else if (!logged_)
    decision.action = Action::log;
  logged_ = true;
  return decision;
}

}  // namespace trireme::observe
