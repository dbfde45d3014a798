// What the supervisor has seen of the attempt that runs.
#pragma once

#include <optional>

#include "launch/supervisor/decide/pace.h"
#include "launch/supervisor/decide/state_machine.h"
#include "launch/supervisor/records/goodput.h"

namespace trireme::supervisor {

struct Supervisor::Watch {
  double began = 0, first_step = -1, last_sign = 0, ended = 0;
  Index resumed = 0, last_step = 0, durable = 0, seen_durable = 0;
  StepTimes times;
  Pace pace;
  std::optional<int> code;
  bool launcher_killed = false, hang = false, asked = false, went_back = false, output = false;
  bool grows = false;     // asked to stop for the sake of more hosts
  bool replaces = false;  // or to leave a host
  double asked_at = 0, last_asked = 0, looked_for_hosts = 0, looked_for_signs = 0;
  Index asked_step = 0;
  Index first_number = 0;     // of the first step that it did
  bool pages = false;         // its ranks write some
  std::optional<Hang> stuck;  // by these pages
};

}  // namespace trireme::supervisor
