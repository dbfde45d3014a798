#include "launch/supervisor/records/recovered_steps.h"

#include <algorithm>

namespace trireme::supervisor {

RecoveredSteps recovered_steps(const History& history, std::size_t attempt) {
  const AttemptEnded& ended = *history.attempts[attempt].ended;
  const Index began = std::max(history.attempts[attempt].began.resumed, ended.first_step - 1);
  const Index safe = std::max(ended.durable, began);
  Index next = -1, least = ended.last_step;
  for (std::size_t i = attempt + 1; i < history.attempts.size(); ++i) {
    const Index start = history.attempts[i].started.step;
    if (start < 0) continue;
    if (next < 0) next = start;
    least = std::min(least, start);
  }
  RecoveredSteps found;
  found.lost_steps = std::max<Index>(0, ended.last_step - (next < 0 ? safe : next));
  const Index open = ended.last_step - safe;
  // Steps of an attempt count as equally long.
  if (next >= 0 && open > 0)
    found.seconds = ended.lost_s * static_cast<double>(std::clamp<Index>(least - safe, 0, open)) /
                    static_cast<double>(open);
  return found;
}

}  // namespace trireme::supervisor
