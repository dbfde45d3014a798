#include "tests/support/kill_job.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

/// The calling process becomes the shell command, in a session of its own. Never returns.
[[noreturn]] void become(const std::string& command, const std::string& log) {
  ::setsid();
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const int in = ::open("/dev/null", O_RDONLY);
  if (out >= 0 && in >= 0 && ::dup2(in, 0) >= 0 && ::dup2(out, 1) >= 0 && ::dup2(out, 2) >= 0)
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  ::_exit(127);
}

struct Stat {
  std::string name;  // the first 15 characters of the program's
  char state = 0;
  pid_t session = -1;
};

/// /proc/ID/stat: "id (name) state parent group session ...", where a name may hold anything.
Stat read_stat(const fs::path& process) {
  std::ifstream in(process / "stat");
  char buffer[1024];  // by read(): of a process that ends meanwhile, iterators throw the error
  in.read(buffer, sizeof buffer);
  const std::string text(buffer, static_cast<std::size_t>(in.gcount()));
  const std::size_t open = text.find('('), close = text.rfind(')');
  Stat stat;
  if (close == text.npos) return stat;  // it has just ended
  stat.name = text.substr(open + 1, close - open - 1);
  pid_t parent = 0, group = 0;
  std::istringstream(text.substr(close + 1)) >> stat.state >> parent >> group >> stat.session;
  return stat;
}

}  // namespace

KillableJob::KillableJob(const std::string& mpirun, const std::string& program,
                         const std::string& arguments, const std::string& log)
    : program_name_(fs::path(program).filename().string().substr(0, 15)),
      // In memory, where Open MPI itself would put its shared segments.
      scratch_(ScratchDirectory::in_memory()) {
  const std::string command =
      str("exec ", mpirun, " --mca orte_tmpdir_base ", scratch_.path(),
          " --mca btl_vader_backing_directory ", scratch_.path(),
          " --mca osc_sm_backing_directory ", scratch_.path(), " ", program, " ", arguments);
  session_ = ::fork();
  require_call(session_ >= 0, "fork");
  if (session_ == 0) become(command, log);
  while (::getsid(session_) != session_) std::this_thread::yield();  // only then it can be found
}

KillableJob::~KillableJob() {
  for (const Process& process : processes()) ::kill(process.id, SIGKILL);
  wait();
}

std::vector<KillableJob::Process> KillableJob::processes() const {
  std::vector<Process> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    const Stat stat = read_stat(entry.path());
    const bool dead =
        stat.state == 'Z' || stat.state == 'X';  // perhaps no process asks for its status
    if (stat.session == session_ && !dead)
      found.push_back({static_cast<pid_t>(std::stol(name)), stat.name});
  }
  return found;
}

std::vector<pid_t> KillableJob::named(const std::string& program) const {
  std::vector<pid_t> found;
  for (const Process& process : processes())
    if (process.name == program) found.push_back(process.id);
  std::sort(found.begin(), found.end());  // in the order in which they were started
  return found;
}

std::optional<Victim> KillableJob::kill(Victim victim, unsigned choice) {
  std::vector<pid_t> ranks, launchers;
  for (const Process& process : processes())
    (process.name == program_name_ ? ranks : launchers).push_back(process.id);
  if (ranks.empty() && launchers.empty()) return {};
  if (ranks.empty()) victim = Victim::launcher;
  if (victim == Victim::rank) ranks = {ranks[choice % ranks.size()]};
  if (victim != Victim::rank)
    for (const pid_t id : launchers) ::kill(id, SIGKILL);
  if (victim != Victim::launcher)
    for (const pid_t id : ranks) ::kill(id, SIGKILL);
  return victim;
}

bool KillableJob::ended() {
  if (!reaped_) reaped_ = ::waitpid(session_, &status_, WNOHANG) == session_;
  return reaped_;
}

int KillableJob::wait() {
  while (!reaped_) {
    reaped_ = ::waitpid(session_, &status_, 0) == session_;
    if (!reaped_) require_call(errno == EINTR, "waitpid");
  }
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

void KillableJob::wait_until_gone() const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point limit = Clock::now() + std::chrono::seconds(60);
  std::vector<Process> left = processes();
  for (; !left.empty() && Clock::now() < limit; left = processes())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::string numbers;
  for (const Process& process : left) numbers += str(" ", process.id);
  require(left.empty(), "processes of a killed job are there after 60 s:", numbers);
}

}  // namespace trireme::test
