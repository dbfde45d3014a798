#include "launch/supervisor/records/attempt_lines.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "runtime/core/text/line_clock.h"

namespace trireme::supervisor {
namespace {

std::string when(Index seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  return day_of(time) + " " + time_of_day(time);
}

std::string to_text(const AttemptLine& line) {
  std::string text = fmt::format("{}  attempt {:<4} {:<15}", when(line.at), line.attempt,
                                 line.cause            ? name(*line.cause)
                                 : line.reason.empty() ? "runs"
                                                       : "no end");
  if (line.cause && is_failure(*line.cause))
    text += fmt::format(" lost {} step{}, {:.1f} s", line.lost_steps,
                        line.lost_steps == 1 ? "" : "s", line.lost_s);
  if (!line.reason.empty()) text += "  " + line.reason;
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

std::string to_text(const std::vector<AttemptLine>& lines, std::size_t most) {
  std::string text;
  const std::size_t shown = std::min(most, lines.size());
  std::set<Cause> causes;
  for (std::size_t i = 0; i < shown; ++i) {
    const AttemptLine& line = lines[lines.size() - 1 - i];
    text += to_text(line);
    if (line.cause) causes.insert(*line.cause);
  }
  if (shown < lines.size())
    text += fmt::format("{} earlier attempts: --json lists them\n", lines.size() - shown);
  for (const Cause cause : causes)
    if (const std::string remedy = remedy_for(cause); !remedy.empty())
      text += fmt::format("to do after {}: {}\n", name(cause), remedy);
  return text;
}

Json to_json(const std::vector<AttemptLine>& lines) {
  Json::Array all;
  for (const AttemptLine& line : lines)
    all.emplace_back(Json::Object{{"attempt", line.attempt},
                                  {"at", date_text(line.at)},
                                  {"cause", line.cause ? Json(name(*line.cause)) : Json()},
                                  {"reason", line.reason},
                                  {"lost_steps", line.lost_steps},
                                  {"lost_s", line.lost_s}});
  return all;
}

}  // namespace trireme::supervisor
