#include "launch/supervisor/machine/processes.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/process/process_environment.h"
#include "runtime/core/process/process_stat.h"
#include "runtime/core/require_call.h"

namespace trireme::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds poll_interval(5);

/// What execve() takes, made before fork(): after it nothing may allocate.
struct ExecWords {
  explicit ExecWords(const std::vector<std::string>& words) : texts(words) {
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
  }
  std::vector<std::string> texts;
  std::vector<char*> pointers;
};

std::vector<std::string> environment_with(const Variables& variables) {
  std::vector<std::string> all = variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string text = *each;
    const std::string name = text.substr(0, text.find('=') + 1);
    const auto same = [&](const std::string& variable) { return variable.starts_with(name); };
    if (std::none_of(variables.begin(), variables.end(), same)) all.push_back(text);
  }
  return all;
}

/// The file that a word names; empty: none.
std::string find_program(const std::string& word) {
  const auto usable = [](const std::string& path) {
    std::error_code unknown;
    return !fs::is_directory(path, unknown) && ::access(path.c_str(), X_OK) == 0;
  };
  if (word.find('/') != std::string::npos) return usable(word) ? word : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (usable(folder + "/" + word)) return folder + "/" + word;
  return "";
}

/// What a child needs between fork and exec, where little is allowed.
struct Child {
  const char* program;
  char* const* words;
  char* const* variables;
  int output, failure;  // failure: gets errno where exec does not come about
  pid_t supervisor;
  bool dies_with_us;
};

/// Returns where it fails.
void become(const Child& child) {
  ::setsid();
  if (child.dies_with_us &&
      (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != child.supervisor))
    return;
  const int input = ::open("/dev/null", O_RDONLY);
  if (input < 0 || ::dup2(input, STDIN_FILENO) < 0) return;
  if (child.output >= 0 &&
      (::dup2(child.output, STDOUT_FILENO) < 0 || ::dup2(child.output, STDERR_FILENO) < 0))
    return;
  for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(child.program, child.words, child.variables);
}

[[noreturn]] void become_or_report(const Child& child) {
  become(child);
  const int reason = errno;
  const ssize_t written = ::write(child.failure, &reason, sizeof reason);
  ::_exit(written == sizeof reason ? 127 : 126);
}

bool lives(const ProcessStat& stat) { return stat.state != 'Z' && stat.state != 'X'; }
bool lives(pid_t id) {
  const auto stat = read_process_stat(id);
  return stat && lives(*stat);
}

}  // namespace

pid_t start_program(const std::vector<std::string>& words, const Variables& variables, int output,
                    bool dies_with_us) {
  const std::string program = find_program(words.front());
  require(!program.empty(), words.front(), " is no program");
  const ExecWords arguments(words), environment(environment_with(variables));
  int failure[2];  // closed by a successful exec
  require_call(::pipe2(failure, O_CLOEXEC) == 0, "pipe");
  const Child child{program.c_str(),
                    arguments.pointers.data(),
                    environment.pointers.data(),
                    output,
                    failure[1],
                    ::getpid(),
                    dies_with_us};
  const pid_t id = ::fork();
  if (id == 0) become_or_report(child);
  const int fork_failed = errno;
  ::close(failure[1]);
  int reason = 0;
  ssize_t bytes = 0;
  do {
    bytes = id < 0 ? 0 : ::read(failure[0], &reason, sizeof reason);
  } while (bytes < 0 && errno == EINTR);
  ::close(failure[0]);
  require(id >= 0, "fork: ", std::strerror(fork_failed));
  require(bytes == 0, words.front(), " cannot be started: ", std::strerror(reason));
  return id;
}

ProgramWithOutput start_with_output(const std::vector<std::string>& words) {
  int ends[2];
  require_call(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
  try {
    const pid_t id = start_program(words, {}, ends[1], true);
    ::close(ends[1]);
    return {id, ends[0]};
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
}

bool is_executable(const std::string& word) { return !find_program(word).empty(); }

std::string program_of_trireme(const std::string& name) {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  const std::string path = (here / name).string();
  if (is_executable(path)) return path;
  const fs::path build = here.parent_path();
  require(fs::exists(build / "CMakeCache.txt"), path,
          " is not there: cmake --install puts it beside trireme");
  throw Error(path + " is not there; it is built by: cmake --build " + build.string() +
              " --target programs");
}

std::vector<pid_t> children_outside(const std::set<pid_t>& sessions, const std::string& spared) {
  std::vector<pid_t> found;
  for (const std::int64_t id : all_processes()) {
    const auto stat = read_process_stat(id);
    if (stat && lives(*stat) && stat->parent == ::getpid() &&
        !sessions.contains(static_cast<pid_t>(stat->session)) &&
        (spared.empty() || !has_variable(environment_of(id), spared)))
      found.push_back(static_cast<pid_t>(id));
  }
  return found;
}

std::vector<Descendant> descendants_of(pid_t root, const std::string& variable) {
  std::vector<Descendant> all;
  for (const std::int64_t id : all_processes()) {
    const auto stat = read_process_stat(id);
    if (stat && lives(*stat))
      all.push_back({static_cast<pid_t>(id), static_cast<pid_t>(stat->parent), ""});
  }
  std::vector<Descendant> found;
  std::set<pid_t> family = {root};
  for (bool grows = true; grows;) {
    grows = false;
    for (const Descendant& each : all)
      if (family.contains(each.parent) && family.insert(each.id).second) grows = true;
  }
  for (Descendant& each : all) {
    if (each.id == root || !family.contains(each.id)) continue;
    each.value = value_in(environment_of(each.id), variable);
    found.push_back(each);
  }
  std::sort(found.begin(), found.end(),
            [](const Descendant& a, const Descendant& b) { return a.id < b.id; });
  return found;
}

void signal_if_it_has(pid_t id, const std::string& variable, int signal) {
  signal_where(id, signal, [&](const std::string& found) { return has_variable(found, variable); });
}

int end_all_with(const std::string& variable) {
  std::set<pid_t> met;
  for (;;) {
    std::vector<pid_t> left;
    for (const std::int64_t each : all_processes()) {
      const auto id = static_cast<pid_t>(each);
      if (id != ::getpid() && has_variable(environment_of(id), variable) && lives(id))
        left.push_back(id);
    }
    if (left.empty()) return static_cast<int>(met.size());
    for (const pid_t id : left) {
      met.insert(id);
      signal_if_it_has(id, variable, SIGKILL);
    }
    std::this_thread::sleep_for(poll_interval);
  }
}

}  // namespace trireme::supervisor
