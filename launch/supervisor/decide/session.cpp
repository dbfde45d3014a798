#include "launch/supervisor/decide/session.h"

#include <algorithm>
#include <csignal>

#include "launch/supervisor/decide/judge.h"

namespace trireme::supervisor {

std::string name_of_request(int signal) {
  return signal == SIGKILL ? "trireme stop --now" : name_of_signal(signal);
}

Session::Session(World& the_world, Settings the_settings, History the_history)
    : world(the_world),
      settings(std::move(the_settings)),
      history(std::move(the_history)),
      began(the_world.now()) {}

void Session::note_signals(const std::vector<int>& signals) {
  for (const int signal : signals) {
    if (signal == SIGKILL) {
      force = signal;
      stop = stop == 0 ? signal : stop;
    } else if (stop == 0) {
      stop_with(signal);
    } else if (signal != SIGUSR1 && world.now() - stop_since >= same_request_s) {
      force = signal;
    }
  }
}

bool Session::is_time_over() const {
  return settings.time_limit_s > 0 && world.now() - began >= settings.time_limit_s;
}

void Session::stop_with(int signal) {
  stop = signal;
  stop_since = world.now();
}

bool Session::look(double seconds) {
  note_signals(world.look(std::clamp(seconds, 0.0, look_s)).signals);
  if (is_time_over() && stop == 0) stop_with(SIGUSR1);  // as where it is over during an attempt
  return stop == 0;
}

bool Session::wait(double seconds) {
  const double until = world.now() + seconds;
  do {
    if (!look(until - world.now())) return false;
  } while (world.now() < until);
  return true;
}

}  // namespace trireme::supervisor
