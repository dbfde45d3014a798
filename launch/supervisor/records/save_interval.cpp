#include "launch/supervisor/records/save_interval.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace trireme::supervisor {

double SaveInterval::best_steps() const {
  const double best_s = std::max(std::sqrt(2 * stall_s * failure_s), save_s);
  return step_s > 0 ? std::max(1.0, std::round(best_s / step_s)) : 0;
}

std::optional<SaveInterval> save_interval(const History& history) {
  double wall_s = 0, failures = 0, stall_s = 0, saves = 0, steps = 0, steps_s = 0;
  double intervals = 0, interval_steps = 0, attempts = 0, save_s = 0;
  SaveInterval found;
  for (const Attempt& attempt : history.attempts) {
    if (!attempt.ended) continue;
    const AttemptEnded& ended = *attempt.ended;
    wall_s += ended.wall_s;
    failures += is_failure(ended.cause) ? 1 : 0;
    if (ended.first_step > 0 && ended.last_step >= ended.first_step) {
      steps += static_cast<double>(ended.last_step - ended.first_step + 1);
      steps_s += ended.useful_s + ended.lost_s;
    }
    if (ended.saves == 0) continue;
    stall_s += ended.stall_s - ended.detect_s;
    saves += static_cast<double>(ended.saves);
    ++attempts;
    save_s += ended.save_s;  // the longest of each: one slow save of a run says little
    intervals += static_cast<double>(ended.saves - 1);
    interval_steps += ended.save_interval * static_cast<double>(ended.saves - 1);
  }
  if (failures < 2 || intervals == 0 || steps_s <= 0) return std::nullopt;
  found.steps = interval_steps / intervals;
  found.step_s = steps_s / steps;
  found.save_s = save_s / attempts;
  found.stall_s = stall_s / saves;
  found.failure_s = wall_s / failures;
  return found;
}

SaveRule choose_saves(const History& history, double seconds) {
  if (const auto known = save_interval(history))
    return {.steps = static_cast<Index>(known->best_steps())};
  if (seconds > 0) return {.seconds = seconds};
  double wall_s = 0, failures = 0;
  for (const Attempt& attempt : history.attempts) {
    if (!attempt.ended) continue;
    wall_s += attempt.ended->wall_s;
    failures += is_failure(attempt.ended->cause) ? 1 : 0;
  }
  SaveRule rule;
  if (failures >= 2) rule.seconds = std::clamp(std::round(wall_s / failures / 4), 1., rule.seconds);
  return rule;
}

std::string to_text(const SaveRule& rule) {
  return rule.steps > 0 ? fmt::format("every {} step{}", rule.steps, rule.steps == 1 ? "" : "s")
                        : fmt::format("every {:g} s", rule.seconds);
}

std::string to_text(const SaveInterval& interval) {
  return fmt::format(
      "a save every {:.0f} steps ({:.3g} s) stalls training for at most {:.2g} s; with a failure "
      "every {:.3g} s, a save every {:.0f} steps loses least\n",
      interval.steps, interval.steps * interval.step_s, interval.stall_s, interval.failure_s,
      interval.best_steps());
}

Json to_json(const SaveInterval& interval) {
  return Json::Object{{"steps", interval.steps},         {"step_s", interval.step_s},
                      {"stall_s", interval.stall_s},     {"save_s", interval.save_s},
                      {"failure_s", interval.failure_s}, {"best_steps", interval.best_steps()}};
}

}  // namespace trireme::supervisor
