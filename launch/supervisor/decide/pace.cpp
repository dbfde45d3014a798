#include "launch/supervisor/decide/pace.h"

#include <algorithm>

namespace trireme::supervisor {
namespace {

constexpr std::size_t recent_steps = 20, open_steps = 4096;
constexpr double unmeasured_grace_s = 600, least_grace_s = 20;
constexpr double shortest_save_s = 0.001;  // it may be over before the supervisor looks

}  // namespace

void Pace::step(Index number, double seconds, double now) {
  ++steps_;
  sum_s_ += seconds;
  recent_.push_back(seconds);
  if (recent_.size() > recent_steps) recent_.pop_front();
  open_.push_back({number, now});
  if (open_.size() > open_steps) open_.pop_front();
}

void Pace::durable(Index number, double now) {
  while (!open_.empty() && open_.front().number <= number) {
    if (open_.front().number == number) {
      save_s_ = std::max({save_s_, shortest_save_s, now - open_.front().at});
      if (saves_++ == 0) first_saved_ = number;
      last_saved_ = number;
    }
    open_.pop_front();
  }
}

double Pace::save_interval() const {
  return saves_ < 2
             ? 0
             : static_cast<double>(last_saved_ - first_saved_) / static_cast<double>(saves_ - 1);
}

double Pace::longest_step_s() const {
  return recent_.empty() ? 0 : *std::max_element(recent_.begin(), recent_.end());
}

double measured_grace_s(double save_s, double step_s) {
  if (save_s <= 0 || step_s <= 0) return unmeasured_grace_s;
  return std::max(least_grace_s, 3 * save_s + 2 * step_s);
}

}  // namespace trireme::supervisor
