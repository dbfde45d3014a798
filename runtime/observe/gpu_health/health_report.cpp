#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/json/json_record.h"
#include "runtime/observe/gpu_health/health_monitor.h"

namespace trireme::observe {
namespace {

constexpr HealthAction actions[] = {HealthAction::report, HealthAction::program,
                                    HealthAction::leave, HealthAction::fatal};

}  // namespace

void describe(RecordOf<HealthReport> auto& report, auto& member) {
  member("host", report.host);
  member("rank", report.rank);
  member("action", named(report.action, actions, "an action"));
  member("text", report.text);
}

std::string to_line(const HealthReport& report) { return to_text(to_json(report)) + "\n"; }

std::vector<HealthReport> parse_health_reports(std::string_view text) {
  return records_in<HealthReport>(text);
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
