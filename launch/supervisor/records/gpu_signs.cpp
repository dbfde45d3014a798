#include "launch/supervisor/records/gpu_signs.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "trireme/core/error.h"

#include "runtime/observe/gpu_health/health_monitor.h"
#include "runtime/store/file.h"

namespace trireme::supervisor {
std::vector<GpuSign> read_gpu_signs(const std::string& folder, const std::vector<Host>& hosts,
                                    Index ranks) {
  constexpr Index most_bytes = Index{1} << 20;
  std::vector<GpuSign> signs;
  std::error_code missing;
  if (!std::filesystem::is_directory(folder, missing)) return signs;
  for (const std::string& name : list_directory(folder)) {
    std::string text;
    try {
      text = read_whole(folder + "/" + name, most_bytes);
    } catch (const Error&) {  // another host is writing it
      continue;
    }
    for (const observe::HealthReport& report : observe::parse_health_reports(text)) {
      const Index count = std::max<Index>(1, std::ssize(hosts));
      signs.push_back({listed_name(report.host, report.rank, hosts, ranks / count), report.action,
                       report.text});
    }
  }
  return signs;
}

bool has_sign(const std::vector<GpuSign>& signs, observe::HealthAction action) {
  return std::any_of(signs.begin(), signs.end(),
                     [&](const GpuSign& sign) { return sign.action == action; });
}

std::vector<Blame> blame_for(const std::vector<GpuSign>& signs) {
  std::vector<Blame> blame;
  std::set<std::string> out;
  for (const GpuSign& sign : signs) {
    if (sign.host.empty()) continue;
    const bool first_fatal =
        sign.action == observe::HealthAction::fatal && out.insert(sign.host).second;
    blame.push_back({sign.host, first_fatal ? quarantine_points : 0, sign.text});
  }
  return blame;
}

}  // namespace trireme::supervisor
