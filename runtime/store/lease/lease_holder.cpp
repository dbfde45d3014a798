#include "runtime/store/lease/lease_holder.h"

#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/json/json_record.h"
#include "runtime/core/process/host_name.h"
#include "runtime/core/process/process_stat.h"

namespace trireme::store {

namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string boot_id() { return first_line("/proc/sys/kernel/random/boot_id"); }

std::string pid_namespace() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string();
}

}  // namespace

LeaseHolder LeaseHolder::self(const std::string& run, const Lineage& lineage) {
  const Index pid = ::getpid();
  const auto process = read_process_stat(pid);
  const std::time_t now = std::time(nullptr);
  std::random_device random;
  return {fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random()),
          host_name(),
          pid,
          process ? process->started_ticks : -1,
          boot_id(),
          pid_namespace(),
          run,
          fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now)),
          lineage};
}

bool LeaseHolder::can_be_asked_for() const {
  return !boot.empty() && boot == boot_id() && !processes.empty() && processes == pid_namespace();
}

bool LeaseHolder::certainly_lives() const { return can_be_asked_for() && !certainly_gone(); }

bool LeaseHolder::certainly_gone() const {
  if (!can_be_asked_for()) return false;
  const auto process = read_process_stat(pid);
  if (process) return process->started_ticks != started || process->state == 'Z';
  return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

std::string LeaseHolder::described() const {
  return fmt::format("pid {} on {} (run {}, since {})", pid, host, run, since);
}

void describe(RecordOf<LeaseHolder> auto& holder, auto& member) {
  member("id", holder.id);
  member("host", holder.host);
  member("pid", within(holder.pid, 1, INT_MAX));
  member("started", holder.started);
  member("boot", holder.boot);
  member("processes", holder.processes);
  member("run", holder.run);
  member("since", holder.since);
  member.when(!holder.lineage.run.empty(), "supervised", holder.lineage.run);
  member.when(!holder.lineage.run.empty(), "attempt", holder.lineage.attempt);
}

std::string to_text(const LeaseHolder& holder) { return to_text(to_json(holder)) + "\n"; }

std::optional<LeaseHolder> parse_lease_holder(std::string_view text) {
  try {
    const LeaseHolder holder = from_json<LeaseHolder>(parse_json(text));
    require(!holder.id.empty(), "no process");
    return holder;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace trireme::store
