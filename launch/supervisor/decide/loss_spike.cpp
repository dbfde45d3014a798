// A spike of the loss is said, kept in the ledger for people, and an event. Nothing else is done:
// going back is the user's decision (docs/concepts/silent_corruption.md).
#include <fmt/format.h>

#include "launch/supervisor/decide/state_machine.h"

namespace trireme::supervisor {

void Supervisor::note_loss_spike(const Step& step) {
  const LossSpike line{history_.attempts.back().began.attempt, world_.date(), step.number,
                       step.loss};
  world_.append(to_json(line));
  history_.add(line);
  world_.announce("loss_spike",
                  fmt::format("loss spike: to step {}, with loss {:g}", line.step, line.loss),
                  to_json(line));
}

}  // namespace trireme::supervisor
