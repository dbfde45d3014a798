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

#include "runtime/core/json.h"
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

std::string to_text(const LeaseHolder& holder) {
  Json::Object members{{"id", holder.id},     {"host", holder.host},
                       {"pid", holder.pid},   {"started", holder.started},
                       {"boot", holder.boot}, {"processes", holder.processes},
                       {"run", holder.run},   {"since", holder.since}};
  if (!holder.lineage.run.empty()) {
    members.emplace_back("supervised", holder.lineage.run);
    members.emplace_back("attempt", holder.lineage.attempt);
  }
  return to_text(Json(std::move(members))) + "\n";
}

std::optional<LeaseHolder> parse_lease_holder(std::string_view text) {
  try {
    const Json json = parse_json(text);
    const auto get = [&]<class T>(const char* key, T& value) {
      const Json* found = json.find(key);
      const T* typed = found ? std::get_if<T>(&found->value) : nullptr;
      require(typed, "no ", key);
      value = *typed;
    };
    LeaseHolder holder;
    get("id", holder.id);
    get("host", holder.host);
    get("pid", holder.pid);
    get("started", holder.started);
    get("boot", holder.boot);
    get("processes", holder.processes);
    get("run", holder.run);
    get("since", holder.since);
    if (json.find("supervised")) {
      get("supervised", holder.lineage.run);
      get("attempt", holder.lineage.attempt);
    }
    require(holder.pid > 0 && holder.pid <= INT_MAX && !holder.id.empty(), "no process");
    return holder;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace trireme::store
