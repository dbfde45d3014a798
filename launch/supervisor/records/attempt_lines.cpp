#include "launch/supervisor/records/attempt_lines.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "runtime/core/text/line_clock.h"

namespace trireme::supervisor {
namespace {

struct Remedy {
  const char *cause, *text;
};
constexpr Remedy remedies[] = {
    {"configuration", "correct what the line names, then start `trireme run` again"},
    {"numerics", "a smaller --lr, a longer --lr-warmup-iters, or --ckpt-step of an older step"},
    {"corruption", "take the named host out of service: trireme nodes"},
    {"killed", "see who sends signals on that host: dmesg, and the log of the batch system"},
    {"launcher_killed", "see who ends mpirun: dmesg, and the log of the batch system"},
    {"crashed", "see the stack in output.log, and the core file beside it"},
    {"out_of_memory", "leave more memory to each process, or change the layout: trireme plan"},
    {"gpu_failed", "see that host: nvidia-smi -q, dmesg; then trireme nodes release"},
    {"node_lost", "see that host and its network; then trireme nodes release"},
    {"hang", "see the stacks of the ranks in verdict.json"},
    {"ended_early", "see the end of output.log"},
    {"failed", "see output.log"},
};

std::string when(Index seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  return day_of(time) + " " + time_of_day(time);
}

std::string to_text(const AttemptLine& line) {
  std::string text = fmt::format("{}  attempt {:<4} {:<15}", when(line.at), line.attempt,
                                 !line.cause.empty()   ? line.cause
                                 : line.reason.empty() ? "runs"
                                                       : "no end");
  if (!line.cause.empty() && is_failure(line.cause))
    text += fmt::format(" lost {} step{}, {:.1f} s", line.lost_steps,
                        line.lost_steps == 1 ? "" : "s", line.lost_s);
  if (!line.reason.empty()) text += "  " + line.reason;
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

std::string remedy_for(const std::string& cause) {
  for (const Remedy& remedy : remedies)
    if (cause == remedy.cause) return remedy.text;
  return "";
}

std::string to_text(const std::vector<AttemptLine>& lines, std::size_t most) {
  std::string text;
  const std::size_t shown = std::min(most, lines.size());
  std::set<std::string> causes;
  for (std::size_t i = 0; i < shown; ++i) {
    const AttemptLine& line = lines[lines.size() - 1 - i];
    text += to_text(line);
    causes.insert(line.cause);
  }
  if (shown < lines.size())
    text += fmt::format("{} earlier attempts: --json lists them\n", lines.size() - shown);
  for (const std::string& cause : causes)
    if (const std::string remedy = remedy_for(cause); !remedy.empty())
      text += fmt::format("to do after {}: {}\n", cause, remedy);
  return text;
}

Json to_json(const std::vector<AttemptLine>& lines) {
  Json::Array all;
  for (const AttemptLine& line : lines)
    all.emplace_back(Json::Object{{"attempt", line.attempt},
                                  {"at", date_text(line.at)},
                                  {"cause", line.cause.empty() ? Json() : Json(line.cause)},
                                  {"reason", line.reason},
                                  {"lost_steps", line.lost_steps},
                                  {"lost_s", line.lost_s}});
  return all;
}

}  // namespace trireme::supervisor
