// Script: how an attempt in a FakeWorld goes.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "launch/supervisor/decide/launcher.h"

namespace trireme::supervisor::test {

/// One attempt: steps of a tenth of a second, a checkpoint every 10, and an end.
struct Script {
  Index steps = 0;  // steps that it does
  int code = 0;
  std::string error = {}, lost_host = {}, rank_host = {};
  bool hangs = false;       // after its steps, instead of ending
  int deaf = 0;             // so many requests to stop do not reach it
  bool obeys = true;        // ends with 75, all saved, when asked to stop
  int signal_at_step = 0;   // SIGTERM reaches the supervisor after so many steps of it
  double clock_jump_s = 0;  // of the date, while it runs
  double sleep_s = 0;       // the machine sleeps so long after the first step
  bool launcher_killed = false;
  std::vector<GpuSign> signs = {};  // found from the start
  std::vector<SlowHost> slow = {};  // from step slow_from to slow_to of it
  Index slow_from = 0, slow_to = 1000000;
  double start_s = 0;  // before the first step
  double step_s = 0.1;
  std::function<void()> at_second_step = {};
  std::string out_of_memory = {};
  std::vector<WrongRank> wrong_ranks = {};
  std::optional<Index> clean = {};  // newest_clean_step()
  Index spike_at_step = 0;          // its loss has a spike to this step
  bool daemon_lost = false;
  bool end_missed = false;
  bool saves_last = true;  // the last step, at the end of training
  std::vector<std::string> unreachable = {};
  Index snapshot = 0;              // in memory, where it is newer than what is saved
  std::string refusal = {};        // why mpirun starts nothing
  std::string dead_rank_was = {};  // what rank 2 did when a signal ended it
  std::deque<Hang> verdicts = {};  // of its status pages while it hangs, one a look; none: no pages
};

/// What its status pages show after so many steps.
inline std::vector<SlowHost> slow_after(Index steps, const Script& script) {
  return steps >= script.slow_from && steps <= script.slow_to ? script.slow
                                                              : std::vector<SlowHost>();
}

/// What its output says of its end.
inline Evidence evidence_of(const Script& script) {
  Evidence found;
  found.first_error = script.error;
  found.gpu_signs = script.signs;
  found.refusal = script.refusal;
  found.lost_host = script.lost_host;
  found.rank_host = script.rank_host;
  found.daemon_lost = script.daemon_lost;
  found.end_missed = script.end_missed;
  found.out_of_memory = script.out_of_memory;
  found.wrong_ranks = script.wrong_ranks;
  found.clean = script.clean;
  found.dead_rank_was = script.dead_rank_was;
  if (!script.dead_rank_was.empty()) {
    found.dead_rank = 2;
    found.dead_signal = script.code - 128;
  }
  return found;
}

}  // namespace trireme::supervisor::test
