#include "runtime/observe/gpu_health/health_monitor.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>

#include <fcntl.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/json/json_record.h"
#include "runtime/core/seconds_since.h"

namespace trireme::observe {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds longest_end(2);

/// Signals of the process are for other threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

struct HealthMonitor::Shared {
  std::unique_ptr<Nvml> nvml;
  std::vector<int> gpus;
  std::function<void(const HealthFinding&)> take;
  HealthPeriods periods;

  std::atomic<bool> stop = false;
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;

  void run() {
    std::vector<HealthWatch> watches;
    watches.reserve(gpus.size());
    for (const int gpu : gpus) {
      nvml->watch(gpu);
      watches.emplace_back(gpu);
    }
    double next_clocks = steady_seconds(), next_reading = next_clocks;
    while (!stop) {
      if (const auto event = nvml->wait(periods.event_ms))
        for (std::size_t i = 0; i < gpus.size(); ++i)
          if (gpus[i] == event->gpu) give(watches[i].event(*event));
      const double now = steady_seconds();
      const bool clocks = now >= next_clocks, reading = now >= next_reading;
      if (clocks) next_clocks = now + periods.clocks_s;
      if (reading) next_reading = now + periods.reading_s;
      for (std::size_t i = 0; i < gpus.size(); ++i) {
        if (clocks) give(watches[i].clocks(nvml->clock_limits(gpus[i]), now));
        if (reading) give(watches[i].reading(nvml->read(gpus[i])));
      }
    }
  }
  void give(const std::vector<HealthFinding>& found) {
    if (stop) return;  // the owner of `take` may be gone
    for (const HealthFinding& finding : found) take(finding);
  }
};

HealthMonitor::HealthMonitor(std::unique_ptr<Nvml> nvml, std::vector<int> gpus,
                             std::function<void(const HealthFinding&)> take,
                             const HealthPeriods& periods)
    : shared_(std::make_shared<Shared>()) {
  shared_->nvml = std::move(nvml);
  shared_->gpus = std::move(gpus);
  shared_->take = std::move(take);
  shared_->periods = periods;
  const SignalsBlocked blocked;
  thread_ = std::thread([shared = shared_] {
    try {
      shared->run();
    } catch (...) {  // a job does without; what failed is an allocation
    }
    const std::lock_guard lock(shared->mutex);
    shared->ended = true;
    shared->changed.notify_all();
  });
}

HealthMonitor::~HealthMonitor() {
  shared_->stop = true;
  bool ended = false;
  {
    std::unique_lock lock(shared_->mutex);
    ended = shared_->changed.wait_for(lock, longest_end, [&] { return shared_->ended; });
  }
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

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
