#include "runtime/core/process/child.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"
#include "runtime/core/seconds_since.h"

namespace trireme {
namespace {

using Why = ChildEnd::Why;
using Output = ChildOptions::Output;

constexpr int pause_ms = 10;

struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

struct Pipe {
  Pipe() {
    int ends[2];
    require_call(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
    read.number = ends[0];
    write.number = ends[1];
  }
  Descriptor read, write;
};

/// What execve() takes, made before fork(): after it nothing may allocate.
struct ExecWords {
  explicit ExecWords(const std::vector<std::string>& words) : texts(words) {
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
  }
  std::vector<std::string> texts;
  std::vector<char*> pointers;
};

/// The file that a word names; empty: none.
std::string find_program(const std::string& word) {
  const auto usable = [](const std::string& path) {
    std::error_code unknown;
    return !std::filesystem::is_directory(path, unknown) && ::access(path.c_str(), X_OK) == 0;
  };
  if (word.find('/') != std::string::npos) return usable(word) ? word : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (usable(folder + "/" + word)) return folder + "/" + word;
  return "";
}

/// What a child needs between fork and exec, where little is allowed.
struct Start {
  const char* program;
  char* const* words;
  char* const* variables;
  int output, failure;  // failure: gets errno where exec does not come about
  pid_t parent;
  bool errors, outlives;
};

/// Returns where it fails.
void become(Start& start) {
  ::setsid();
  if (!start.outlives && (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != start.parent))
    return;
  const int input = ::open("/dev/null", O_RDONLY);
  if (input < 0 || ::dup2(input, STDIN_FILENO) < 0) return;
  if (start.output >= 0 && ::dup2(start.output, STDOUT_FILENO) < 0) return;
  if (start.output >= 0 && start.errors && ::dup2(start.output, STDERR_FILENO) < 0) return;
  for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  constexpr int first = STDERR_FILENO + 1;
  if (start.failure != first && ::dup3(start.failure, first, O_CLOEXEC) < 0) return;
  start.failure = first;
  ::closefrom(first + 1);
  ::execve(start.program, start.words, start.variables);
}

[[noreturn]] void become_or_report(Start& start) {
  become(start);
  const int reason = errno;
  const ssize_t written = ::write(start.failure, &reason, sizeof reason);
  ::_exit(written == sizeof reason ? 127 : 126);
}

/// Returns its id once it runs.
pid_t start(const std::vector<std::string>& words, const ChildOptions& options, int output) {
  const std::string program = find_program(words.front());
  require(!program.empty(), words.front(), " is no program");
  const ExecWords arguments(words), environment(options.environment);
  Pipe failure;  // closed by a successful exec
  Start begin{program.c_str(), arguments.pointers.data(), environment.pointers.data(),
              output,          failure.write.number,      ::getpid(),
              options.errors,  options.outlives};
  const pid_t id = ::fork();
  if (id == 0) become_or_report(begin);
  require_call(id > 0, "fork");
  ::close(std::exchange(failure.write.number, -1));
  int reason = 0;
  ssize_t bytes = 0;
  do {
    bytes = ::read(failure.read.number, &reason, sizeof reason);
  } while (bytes < 0 && errno == EINTR);
  if (bytes == 0) return id;
  ::waitpid(id, nullptr, 0);
  throw Error(str(words.front(), " cannot be started: ", std::strerror(reason)));
}

/// With si_pid 0 while it runs. Leaves the status to be asked for again.
siginfo_t status_of(pid_t id) {
  siginfo_t info{};
  const int found = ::waitid(P_PID, static_cast<id_t>(id), &info, WEXITED | WNOHANG | WNOWAIT);
  require_call(found == 0, "waitid");
  return info;
}

}  // namespace

std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string text = *each;
    const std::string name = text.substr(0, text.find('=') + 1);
    const auto same = [&](const std::string& variable) { return variable.starts_with(name); };
    if (std::none_of(variables.begin(), variables.end(), same)) all.push_back(text);
  }
  return all;
}

bool is_executable(const std::string& word) { return !find_program(word).empty(); }

Child::Child(const std::vector<std::string>& words, ChildOptions options)
    : options_(std::move(options)), until_(steady_seconds() + options_.limit_s) {
  Descriptor ours, theirs;
  if (options_.output == Output::pipe) {
    Pipe pipe;
    std::swap(ours.number, pipe.read.number);
    std::swap(theirs.number, pipe.write.number);
    ::fcntl(ours.number, F_SETFL, O_NONBLOCK);
  } else if (options_.output == Output::file) {
    constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK;  // for no pipe
    theirs.number = ::open(options_.file.c_str(), flags, 0644);
    require_call(theirs.number >= 0, options_.file, ": open");
  }
  id_ = start(words, options_, theirs.number);
  std::swap(pipe_, ours.number);
  if (options_.family != nullptr) options_.family->insert(id_);
}

Child::~Child() {
  options_.take = {};  // which may throw
  if (options_.outlives)
    poll();
  else
    for (ask_to_end(); poll() == nullptr;) pause();
  if (options_.family != nullptr) options_.family->erase(id_);
  if (pipe_ >= 0) ::close(pipe_);
}

void Child::signal(int number) const {
  if (id_ > 0) ::kill(id_, number);
}

void Child::end_as(Why why) {
  if (id_ < 0 || end_.why != Why::by_itself) return;
  end_.why = why;
  until_ = steady_seconds() + options_.ending_s;
  if (options_.ending_s > 0) ::kill(options_.ask_alone ? id_ : -id_, SIGTERM);
}

const ChildEnd* Child::poll() {
  const siginfo_t info = id_ > 0 ? status_of(id_) : siginfo_t{};
  read();  // after it was asked for: what it has printed is read once it has ended
  if (id_ < 0) return &end_;
  const double now = steady_seconds();
  if (info.si_pid != 0) {
    until_ = std::min(until_, now + options_.leftover_s);
    if (pipe_ < 0 || now >= until_) finish(info.si_code, info.si_status);
  } else if (now >= until_ && end_.why == Why::by_itself) {
    end_as(Why::late);
  } else if (now >= until_) {
    until_ = std::numeric_limits<double>::infinity();
    ::kill(-id_, SIGKILL);
  }
  return id_ < 0 ? &end_ : nullptr;
}

void Child::finish(int code, int status) {
  (code == CLD_EXITED ? end_.status : end_.signal) = status;
  if (!options_.outlives) ::kill(-id_, SIGKILL);
  while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (options_.family != nullptr) options_.family->erase(id_);
  id_ = -1;
}

const ChildEnd& Child::wait() {
  for (;; pause())
    if (const ChildEnd* end = poll(); end != nullptr) return *end;
}

/// poll() leaves out a file of a negative number.
void Child::pause(int file) const {
  pollfd in[] = {{pipe_, POLLIN, 0}, {file, POLLIN, 0}};
  ::poll(in, 2, pause_ms);
}

void Child::read() {
  constexpr int most_reads = 16;     // then other things have their turn
  std::array<char, 1 << 13> buffer;  // a stack may be small (ulimit -s)
  for (int i = 0; i < most_reads && pipe_ >= 0; ++i) {
    const ssize_t bytes = ::read(pipe_, buffer.data(), buffer.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return;
    if (bytes == 0)
      ::close(std::exchange(pipe_, -1));
    else
      keep({buffer.data(), static_cast<std::size_t>(bytes)});
  }
}

void Child::keep(std::string_view piece) {
  std::string& output = end_.output;
  const std::size_t most = options_.most_output, first = most / 4, last = most / 2;
  output.append(piece);
  if (output.size() > most) output.erase(first, output.size() - first - last);
  if (options_.take) options_.take(piece);
}

void reap_orphans(const std::set<pid_t>& family) {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0 ||
        family.contains(info.si_pid))
      return;
    ::waitpid(info.si_pid, nullptr, 0);
  }
}

namespace {

/// Cuts what a program prints into lines.
class Lines {
 public:
  explicit Lines(const std::function<void(std::string_view)>& take_line) : take_line_(take_line) {}
  void take(std::string_view piece) {
    constexpr std::size_t longest = std::size_t{64} << 20;
    for (std::size_t end; (end = piece.find('\n')) != std::string_view::npos;
         piece.remove_prefix(end + 1)) {
      line_.append(piece.substr(0, end));
      take_line_(line_);
      line_.clear();
    }
    if (line_.size() < longest) line_.append(piece);
  }

 private:
  const std::function<void(std::string_view)>& take_line_;
  std::string line_;  // without its end
};

}  // namespace

ChildEnd run_program(const std::vector<std::string>& words, const RunOptions& options) {
  Lines lines(options.take_line);
  ChildOptions of_child{.output = ChildOptions::Output::pipe,
                        .take = [&](std::string_view piece) { lines.take(piece); },
                        .most_output = options.most_output,
                        .limit_s = options.limit_s,
                        .ending_s = options.ending_s,
                        .leftover_s = options.leftover_s,
                        .ask_alone = true};
  Child child(words, std::move(of_child));
  const EndSignals* signals = options.signals;
  const double began = steady_seconds();
  for (double next_sign = began + options.between_signs_s;;) {
    if (const ChildEnd* end = child.poll(); end != nullptr) return *end;
    if (signals != nullptr && signals->came()) {
      child.ask_to_end();
      signals = nullptr;
    }
    if (const double now = steady_seconds(); now >= next_sign) {
      next_sign = now + options.between_signs_s;
      options.still_runs(now - began);
    }
    child.pause(signals == nullptr ? -1 : signals->file());
  }
}

}  // namespace trireme
