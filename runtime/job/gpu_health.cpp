#include "runtime/job/gpu_health.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/core.h>
#include <unistd.h>

#include "trireme/comm/agree.h"
#include "trireme/core/error.h"

#include "runtime/core/process/this_machine.h"

namespace trireme::job {
namespace {

using observe::HealthAction;

/// Empty: no supervisor asks for them.
std::string path_of_reports(const std::string& host, int rank) {
  const char* folder = std::getenv("TRIREME_HEALTH");
  return folder == nullptr || *folder == '\0' ? ""
                                              : fmt::format("{}/{}-{}.jsonl", folder, host, rank);
}

/// In the thread that watches. A rank whose GPU is lost may be blocked in the driver, so nothing is
/// left to it: the process ends, and mpirun ends the others.
void take(const observe::HealthFinding& finding, const std::string& host, int rank,
          const std::string& path) {
  const bool fatal = finding.action == HealthAction::fatal;
  const std::string text = observe::text_of(finding);
  fmt::print(stderr, "trireme[rank {}] {}: node {}, {} ({})\n", rank,
             fatal ? "error" : "GPU health", host, text, name(finding.action));
  std::fflush(stderr);
  if (!path.empty() && !observe::append_health_report(path, {host, rank, finding.action, text}))
    fmt::print(stderr, "trireme[rank {}] GPU health: {} cannot be written\n", rank, path);
  if (fatal) ::_exit(static_cast<int>(ExitCode::failure));
}

/// Those of the job that the driver of this node knows, by its numbers.
std::vector<int> gpus_of(const std::vector<std::string>& job, const observe::Nvml& nvml) {
  std::vector<int> gpus;
  for (int gpu = 0; gpu < nvml.gpus(); ++gpu)
    if (std::find(job.begin(), job.end(), nvml.facts(gpu).uuid) != job.end()) gpus.push_back(gpu);
  return gpus;
}

}  // namespace

void end_as_if_gpu_was_lost(int rank) {
  constexpr std::uint64_t off_the_bus = 79;
  const observe::HealthRule& rule = observe::health_rule(observe::HealthSign::xid, off_the_bus, 1);
  const std::string host = host_name();
  take({0, rule.sign, off_the_bus, HealthAction::fatal, "simulated by trireme chaos"}, host, rank,
       path_of_reports(host, rank));
  ::_exit(static_cast<int>(ExitCode::failure));
}

std::unique_ptr<observe::HealthMonitor> watch_gpus(const Host& host, const std::string& gpu,
                                                   bool asks, const Log& log) {
  const std::vector<std::string> job = gather_strings(host, gpu);
  if (!asks) return nullptr;
  std::string reason;
  std::unique_ptr<observe::Nvml> nvml = observe::Nvml::open(reason);
  std::vector<int> gpus;
  if (nvml) gpus = gpus_of(job, *nvml);
  if (nvml && gpus.empty()) reason = "the driver does not list the GPUs of this job";
  if (gpus.empty()) {
    log.info("GPU health is not watched: " + reason);
    return nullptr;
  }
  log.info(str("GPU health: ", gpus.size(), gpus.size() == 1 ? " GPU" : " GPUs",
               " of this node are watched, driver ", nvml->driver_version()));
  return std::make_unique<observe::HealthMonitor>(
      std::move(nvml), std::move(gpus),
      [name = host_name(), rank = host.rank(), path = path_of_reports(host_name(), host.rank())](
          const observe::HealthFinding& finding) { take(finding, name, rank, path); });
}

}  // namespace trireme::job
