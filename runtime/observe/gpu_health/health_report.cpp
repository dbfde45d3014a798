#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/json.h"
#include "runtime/observe/gpu_health/health_monitor.h"

namespace trireme::observe {
namespace {

const std::string* text_in(const Json& json, std::string_view key) {
  const Json* member = json.find(key);
  return member == nullptr ? nullptr : std::get_if<std::string>(&member->value);
}

std::optional<HealthReport> parse_line(std::string_view line) {
  Json json;
  try {
    json = parse_json(line);
  } catch (const Error&) {
    return std::nullopt;
  }
  const std::string *host = text_in(json, "host"), *action = text_in(json, "action"),
                    *text = text_in(json, "text");
  const Json* rank = json.find("rank");
  const Index* number = rank == nullptr ? nullptr : std::get_if<Index>(&rank->value);
  if (host == nullptr || action == nullptr || text == nullptr || number == nullptr)
    return std::nullopt;
  const auto known = health_action(*action);
  if (!known) return std::nullopt;
  return HealthReport{*host, static_cast<int>(*number), *known, *text};
}

}  // namespace

std::string to_line(const HealthReport& report) {
  return to_text(Json(Json::Object{{"host", report.host},
                                   {"rank", report.rank},
                                   {"action", name(report.action)},
                                   {"text", report.text}})) +
         "\n";
}

std::vector<HealthReport> parse_health_reports(std::string_view text) {
  std::vector<HealthReport> reports;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (const auto report = parse_line(text.substr(0, end))) reports.push_back(*report);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return reports;
}

bool append_health_report(const std::string& path, const HealthReport& report) {
  constexpr int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;  // for no pipe
  const int file = ::open(path.c_str(), flags, 0644);
  if (file < 0) return false;
  const std::string line = to_line(report);  // written at once: several nodes may write
  ssize_t written = 0;
  do {
    written = ::write(file, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  return ::close(file) == 0 && written == static_cast<ssize_t>(line.size());
}

}  // namespace trireme::observe
