#include "launch/verify/run_job.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <thread>

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/processes.h"

namespace trireme::verify {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Time = std::chrono::time_point<Clock, std::chrono::duration<double>>;

constexpr double time_to_end_s = 10;  // after SIGTERM; then SIGKILL
constexpr std::size_t most_output = std::size_t{4} << 20;

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

Time after(double seconds) { return Clock::now() + std::chrono::duration<double>(seconds); }

class Job {
 public:
  Job(const std::vector<std::string>& words, Signals& signals) : signals_(signals) {
    const supervisor::ProgramWithOutput started = supervisor::start_with_output(words);
    id_ = started.id;
    pipe_ = started.output;
  }
  ~Job() { ::close(pipe_); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  JobEnd run(double limit_s) {
    JobEnd end;
    const Why why = read_until(after(limit_s), true);
    if (why != Why::closed) {
      ::kill(id_, SIGTERM);  // mpirun then ends its ranks
      if (read_until(after(time_to_end_s), false) != Why::closed) ::kill(-id_, SIGKILL);
    }
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    if (why == Why::signal) throw Interrupted{signals_.first()};
    end.late = why == Why::late;
    if (!end.late && WIFEXITED(status)) end.code = WEXITSTATUS(status);
    end.output = std::move(output_);
    return end;
  }

 private:
  enum class Why { closed, late, signal };

  /// Keeps the beginning, which has the configuration, and the end, which has the failure.
  void keep(const char* text, std::size_t bytes) {
    if (output_.size() + bytes > most_output) output_.erase(most_output / 4, most_output / 2);
    output_.append(text, bytes);
  }
  /// `interruptible`: a signal ends it.
  Why read_until(Time until, bool interruptible) {
    char buffer[1 << 16];
    for (;;) {
      const double left = std::chrono::duration<double>(until - Clock::now()).count();
      if (left <= 0) return Why::late;
      pollfd in[] = {{pipe_, POLLIN, 0}, {signals_.file(), POLLIN, 0}};
      const int count = interruptible ? 2 : 1;
      if (::poll(in, static_cast<nfds_t>(count), static_cast<int>(std::min(left, 1e3) * 1e3) + 1) <=
          0)
        continue;
      if (interruptible && in[1].revents != 0 && signals_.first() != 0) return Why::signal;
      if (in[0].revents == 0) continue;
      const ssize_t bytes = ::read(pipe_, buffer, sizeof buffer);
      if (bytes == 0) return Why::closed;
      if (bytes > 0) keep(buffer, static_cast<std::size_t>(bytes));
    }
  }

  Signals& signals_;
  int pipe_ = -1;
  pid_t id_ = -1;
  std::string output_;
};

}  // namespace

Signals::Signals() {
  const sigset_t set = watched_signals();
  require(::sigprocmask(SIG_BLOCK, &set, &before_) == 0, "sigprocmask: ", std::strerror(errno));
  file_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  require(file_ >= 0, "signalfd: ", std::strerror(errno));
}

Signals::~Signals() {
  first();  // what has come is taken: it does not end the process now
  ::close(file_);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int Signals::first() {
  signalfd_siginfo info;
  while (::read(file_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    if (first_ == 0) first_ = static_cast<int>(info.ssi_signo);
  return first_;
}

JobDirectory::JobDirectory(const std::string& parent) {
  std::string pattern = (fs::absolute(parent) / "trireme-verify-XXXXXX").string();
  require(::mkdtemp(pattern.data()) != nullptr, pattern, ": ", std::strerror(errno),
          "; --directory DIR names a directory that can be written to from every host");
  path_ = pattern;
}

/// Ranks that were killed may still remove their files.
JobDirectory::~JobDirectory() {
  constexpr int most_tries = 100;
  std::error_code failed;
  for (int tries = 0; tries < most_tries; ++tries) {
    fs::remove_all(path_, failed);
    if (!failed) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::cerr << "trireme verify: " << path_ << " cannot be removed: " << failed.message() << '\n';
}

std::string JobDirectory::folder(const std::string& name) const {
  std::string path = path_ + "/" + name;
  fs::create_directory(path);
  return path;
}

JobEnd run_job(const std::vector<std::string>& words, double limit_s, Signals& signals) {
  return Job(words, signals).run(limit_s);
}

std::string reason_in(const std::string& output) {
  constexpr std::size_t most = 4000, last_lines = 6;
  std::istringstream in(output);
  std::string own;
  std::vector<std::string> all;
  bool inside = false;  // of a message of several lines
  for (std::string line; std::getline(in, line);) {
    const bool begins = line.starts_with("trireme: ") || line.starts_with("trireme error: ") ||
                        line.starts_with("trireme[rank ");
    inside = begins || (inside && line.starts_with("  "));
    if (inside && own.size() < most) own += (own.empty() ? "" : "\n") + line;
    if (line.find_first_not_of(" -\n") != std::string::npos) all.push_back(line);
  }
  if (!own.empty()) return own;
  if (all.empty()) return "it printed nothing";
  std::string last;
  for (std::size_t i = all.size() - std::min(all.size(), last_lines); i < all.size(); ++i)
    last += (last.empty() ? "" : "\n") + all[i];
  return last;
}

}  // namespace trireme::verify
