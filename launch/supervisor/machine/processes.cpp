#include "launch/supervisor/machine/processes.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/process/process_stat.h"

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

/// All of this system, by /proc. Throws: Error where that cannot be read.
template <class F>
void for_each_process(F&& f) {
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", unreadable)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos)
      f(static_cast<pid_t>(std::stol(name)), entry.path());
  }
  // Without a list no process would seem to be left.
  require(!unreadable, "/proc cannot be read: ", unreadable.message());
}

/// "\0NAME=VALUE\0NAME=VALUE\0".
std::string environment_of(const fs::path& process) {
  std::ifstream in(process / "environ", std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return '\0' + text.str();
}

bool environment_has(const fs::path& process, const std::string& variable) {
  return environment_of(process).find('\0' + variable + '\0') != std::string::npos;
}

std::string value_in(const std::string& environment, const std::string& name) {
  const std::string mark = '\0' + name + '=';
  const std::size_t at = environment.find(mark);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + mark.size();
  return environment.substr(begin, environment.find('\0', begin) - begin);
}

}  // namespace

pid_t start_program(const std::vector<std::string>& words, const Variables& variables, int output,
                    bool dies_with_us) {
  const std::string program = find_program(words.front());
  require(!program.empty(), words.front(), " is no program");
  const ExecWords arguments(words), environment(environment_with(variables));
  int failure[2];  // closed by a successful exec
  require(::pipe2(failure, O_CLOEXEC) == 0, "pipe: ", std::strerror(errno));
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

bool is_executable(const std::string& word) { return !find_program(word).empty(); }

std::vector<pid_t> children_outside(const std::set<pid_t>& sessions) {
  std::vector<pid_t> found;
  for_each_process([&, self = ::getpid()](pid_t id, const fs::path& /*process*/) {
    const auto stat = read_process_stat(id);
    if (stat && lives(*stat) && stat->parent == self &&
        !sessions.contains(static_cast<pid_t>(stat->session)))
      found.push_back(id);
  });
  return found;
}

std::vector<Descendant> descendants_of(pid_t root, const std::string& variable) {
  std::vector<Descendant> all;
  for_each_process([&](pid_t id, const fs::path& /*process*/) {
    const auto stat = read_process_stat(id);
    if (stat && lives(*stat)) all.push_back({id, static_cast<pid_t>(stat->parent), ""});
  });
  std::vector<Descendant> found;
  std::set<pid_t> family = {root};
  for (bool grows = true; grows;) {
    grows = false;
    for (const Descendant& each : all)
      if (family.contains(each.parent) && family.insert(each.id).second) grows = true;
  }
  for (Descendant& each : all) {
    if (each.id == root || !family.contains(each.id)) continue;
    each.value = value_in(environment_of(str("/proc/", each.id)), variable);
    found.push_back(each);
  }
  std::sort(found.begin(), found.end(),
            [](const Descendant& a, const Descendant& b) { return a.id < b.id; });
  return found;
}

/// Only if it still has the variable once a descriptor holds its number. Throws: Error where the
/// kernel, or a filter of system calls, allows no such descriptor.
void signal_if_it_has(pid_t id, const std::string& variable, int signal) {
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, id, 0));
  require(process >= 0 || (errno != ENOSYS && errno != EPERM), "process ", id,
          " cannot be ended: pidfd_open: ", std::strerror(errno));
  if (process < 0) return;
  if (environment_has(str("/proc/", id), variable))
    ::syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0);
  ::close(process);
}

int end_all_with(const std::string& variable) {
  std::set<pid_t> met;
  for (;;) {
    std::vector<pid_t> left;
    for_each_process([&, self = ::getpid()](pid_t id, const fs::path& process) {
      if (id != self && environment_has(process, variable) && lives(id)) left.push_back(id);
    });
    if (left.empty()) return static_cast<int>(met.size());
    for (const pid_t id : left) {
      met.insert(id);
      signal_if_it_has(id, variable, SIGKILL);
    }
    std::this_thread::sleep_for(poll_interval);
  }
}

}  // namespace trireme::supervisor
