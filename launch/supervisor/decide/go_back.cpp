// The step that an attempt starts from where that is not the newest: after gradients that were not
// finite, and after silent corruption.
#include <fmt/format.h>

#include "launch/supervisor/decide/state_machine.h"

namespace trireme::supervisor {
namespace {

/// It was to start from an older step, and ended before it had loaded that: newer ones are still
/// there.
bool has_not_gone_back(const Attempt& attempt) {
  return attempt.began.went_back && attempt.ended->first_step == 0 &&
         attempt.ended->started.step < 0;
}

}  // namespace

/// -1: the newest. `resumes`: what PROGRAM was started from is past. The ledger decides, so that a
/// supervisor that is started again goes back as well.
Index Supervisor::step_to_go_back_to(bool resumes) {
  if (history_.attempts.empty() || !history_.attempts.back().ended) return -1;
  const Attempt& last = history_.attempts.back();
  const bool of_the_user = !resumes && !settings_.ckpt_step.empty();
  const bool numerics = last.ended->cause == Cause::numerics;
  const bool since_an_end = history_.attempts.size() > history_.first;
  if (of_the_user || (numerics && !since_an_end)) return -1;
  if (numerics) {
    // Also where there is one step only: snapshots in memory may be newer.
    const std::vector<Index> durable = world_.durable_steps();
    return durable.empty() ? -1 : durable[durable.size() > 1 ? 1 : 0];
  }
  if (has_not_gone_back(last)) return world_.newest_durable_up_to(last.began.resumed);
  if (last.ended->cause != Cause::corruption || !last.ended->clean) return -1;
  const Index clean = *last.ended->clean;
  const Index step = clean < 0 ? -1 : world_.newest_durable_up_to(clean);
  if (step < 0)
    world_.say("no durable step is known to be clean: continues from the newest");
  else
    world_.say(
        fmt::format("continues from step {}: step {}, computed twice, was clean", step, clean));
  return step;
}

}  // namespace trireme::supervisor
