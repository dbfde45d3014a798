#include "launch/supervisor/decide/session.h"

#include <algorithm>
#include <csignal>

#include "launch/supervisor/decide/judge.h"

namespace trireme::supervisor {

std::string name_of_request(int signal) {
  return signal == SIGKILL ? "trireme stop --now" : name_of_signal(signal);
}

Session::Session(Launcher& the_launcher, RunFiles& the_files, Settings the_settings,
                 History the_history)
    : launcher(the_launcher),
      files(the_files),
      settings(std::move(the_settings)),
      history(std::move(the_history)),
      began(the_launcher.now()) {}

void Session::note_signals(const std::vector<int>& signals) {
  for (const int signal : signals) {
    if (signal == SIGKILL) {
      force = signal;
      stop = stop == 0 ? signal : stop;
    } else if (stop == 0) {
      stop_with(signal);
    } else if (signal != SIGUSR1 && launcher.now() - stop_since >= same_request_s) {
      force = signal;
    }
  }
}

bool Session::is_time_over() const {
  return settings.time_limit_s > 0 && launcher.now() - began >= settings.time_limit_s;
}

void Session::stop_with(int signal) {
  stop = signal;
  stop_since = launcher.now();
}

bool Session::look(double seconds) {
  note_signals(launcher.observe(std::clamp(seconds, 0.0, look_s)).signals);
  if (is_time_over() && stop == 0) stop_with(SIGUSR1);  // as where it is over during an attempt
  return stop == 0;
}

bool Session::wait(double seconds) {
  const double until = launcher.now() + seconds;
  do {
    if (!look(until - launcher.now())) return false;
  } while (launcher.now() < until);
  return true;
}

}  // namespace trireme::supervisor
