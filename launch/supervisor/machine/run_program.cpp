#include "launch/supervisor/machine/run_program.h"

#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/clock.h"
#include "launch/supervisor/machine/processes.h"
#include "runtime/core/require_call.h"

namespace trireme::supervisor {
namespace {

using Why = ProgramEnd::Why;

constexpr int pause_ms = 10;  // between two looks whether it has ended, which shows in no file
constexpr std::size_t longest_output_line = std::size_t{64} << 20;

class Program {
 public:
  Program(const std::vector<std::string>& words, const RunOptions& options) : options_(options) {
    const ProgramWithOutput started = start_with_output(words);
    id_ = started.id;
    pipe_ = started.output;
    ::fcntl(pipe_, F_SETFL, O_NONBLOCK);
  }
  /// Nothing of its process group runs on. Until its status is asked for, its number is its own.
  ~Program() {
    ::kill(-id_, SIGKILL);
    while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
    }
    close_pipe();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  ProgramEnd run() {
    end_.why = wait(now() + options_.limit_s, options_.signals);
    if (end_.why != Why::by_itself) {
      ::kill(id_, SIGTERM);  // mpirun then ends its ranks
      const double until = now() + options_.ending_s;
      if (wait(until, nullptr) == Why::by_itself) read_leftovers(until);
    } else {
      read_leftovers(now() + options_.leftover_s);
    }
    if (end_.why != Why::by_itself) end_.code.reset();
    return std::move(end_);
  }

 private:
  /// Until it has ended, or that time, or a signal.
  Why wait(double until, const EndSignals* signals) {
    for (;;) {
      const bool ended = has_ended();  // before reading: what it has printed is read then
      read();
      if (ended) return Why::by_itself;
      if (signals != nullptr && signals->came()) return Why::signal;
      if (now() >= until) return Why::late;
      show_sign();
      pause(signals == nullptr ? -1 : signals->file());
    }
  }

  void show_sign() {
    if (now() < next_sign_) return;
    next_sign_ = now() + options_.between_signs_s;
    options_.still_runs(now() - began_);
  }

  /// What runs on of its process group, such as daemons that remove their files.
  void read_leftovers(double until) {
    for (; pipe_ >= 0 && now() < until; read()) pause(-1);
  }

  bool has_ended() {
    siginfo_t info{};
    const int found = ::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT);
    require_call(found == 0, "waitid");
    if (info.si_pid == 0) return false;
    if (info.si_code == CLD_EXITED) end_.code = info.si_status;
    return true;
  }

  /// poll() leaves out a file of a negative number.
  void pause(int signals) const {
    pollfd in[] = {{pipe_, POLLIN, 0}, {signals, POLLIN, 0}};
    ::poll(in, 2, pause_ms);
  }

  void read() {
    constexpr int most_reads = 16;  // then other things have their turn
    char buffer[1 << 13];           // a stack may be small (ulimit -s)
    for (int i = 0; i < most_reads && pipe_ >= 0; ++i) {
      const ssize_t bytes = ::read(pipe_, buffer, sizeof buffer);
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes < 0 && errno == EAGAIN) return;
      if (bytes <= 0) return close_pipe();
      keep({buffer, static_cast<std::size_t>(bytes)});
    }
  }

  void close_pipe() {
    if (pipe_ >= 0) ::close(pipe_);
    pipe_ = -1;
  }

  void keep(std::string_view text) {
    std::string& output = end_.output;
    const std::size_t first = options_.most_output / 4, last = options_.most_output / 2;
    output.append(text);
    if (output.size() > options_.most_output) output.erase(first, output.size() - first - last);
    for (std::size_t end; (end = text.find('\n')) != std::string_view::npos;
         text.remove_prefix(end + 1)) {
      line_.append(text.substr(0, end));
      options_.take_line(line_);
      line_.clear();
    }
    if (line_.size() < longest_output_line) line_.append(text);
  }

  const RunOptions& options_;
  const double began_ = now();
  double next_sign_ = began_ + options_.between_signs_s;
  pid_t id_ = -1;
  int pipe_ = -1;
  std::string line_;  // without its end
  ProgramEnd end_;
};

}  // namespace

ProgramEnd run_program(const std::vector<std::string>& words, const RunOptions& options) {
  return Program(words, options).run();
}

}  // namespace trireme::supervisor
