// What the supervisor has seen of the attempt that runs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "launch/supervisor/decide/pace.h"
#include "launch/supervisor/decide/state_machine.h"
#include "launch/supervisor/records/goodput.h"

namespace trireme::supervisor {

struct Supervisor::Watch {
  Facts facts;
  double began = 0, first_step = -1, last_sign = 0, ended = 0;
  Index seen_durable = 0;
  StepTimes times;
  Pace pace;
  bool launcher_ended = false, asked = false, went_back = false, output = false;
  bool asks_to_grow = false;                // the program is asked what more hosts could run
  std::map<std::string, Index> slow_since;  // hosts, and the step at which they were so first
  std::set<std::string> slow_said;          // that stay although they are slow
  std::map<std::string, double> no_spare;   // for which there was none, and when
  double asked_at = 0, last_asked = 0, looked_for_hosts = 0, looked_for_signs = 0;
  Index asked_step = 0;
  Index first_number = 0;  // of the first step that it did
  bool pages = false;      // of its ranks are seen
  double last_pages = -1;  // when they were seen last; -1: never
};

}  // namespace trireme::supervisor
