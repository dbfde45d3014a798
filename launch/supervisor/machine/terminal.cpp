#include "launch/supervisor/machine/terminal.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/text/line_clock.h"

namespace trireme::supervisor {
namespace {

constexpr std::chrono::seconds longest_end(1);

/// A reader that has gone loses what it would have read, as the log has it.
void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

struct Terminal::State {
  struct Text {
    int descriptor;
    std::string bytes;
  };

  void add(int descriptor, std::string bytes);
  /// Returns a line of the supervisor, with the time of day before it. Called by the control loop.
  std::string line_of(const std::string& sentence) {
    return str(clock.stamp(), " trireme run: ", sentence, '\n');
  }
  void write_until_the_end();

  int output = 1, errors = 2;
  LineClock clock;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Text> texts;
  std::size_t waiting = 0, dropped = 0;  // bytes
  bool ended = false, finished = false;
};

void Terminal::State::add(int descriptor, std::string bytes) {
  const std::lock_guard guard(mutex);
  if (waiting + bytes.size() > most_waiting) {
    dropped += bytes.size();
    return;
  }
  if (dropped > 0) {
    std::string line = line_of(str(std::exchange(dropped, 0),
                                   " bytes are not shown, as nothing took them; the log has what "
                                   "the job prints"));
    waiting += line.size();
    texts.push_back({errors, std::move(line)});
  }
  waiting += bytes.size();
  texts.push_back({descriptor, std::move(bytes)});
  changed.notify_all();
}

void Terminal::State::write_until_the_end() {
  std::unique_lock guard(mutex);
  for (;;) {
    changed.wait(guard, [this] { return ended || !texts.empty(); });
    if (texts.empty()) break;
    const Text text = std::move(texts.front());
    texts.pop_front();
    guard.unlock();
    write_all(text.descriptor, text.bytes);
    guard.lock();
    waiting -= text.bytes.size();
  }
  finished = true;
  changed.notify_all();
}

Terminal::Terminal(int output, int errors) : state_(std::make_shared<State>()) {
  state_->output = output;
  state_->errors = errors;
  // Signals are the control loop's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([state = state_] { state->write_until_the_end(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Terminal::~Terminal() {
  std::unique_lock guard(state_->mutex);
  state_->ended = true;
  state_->changed.notify_all();
  state_->changed.wait_for(guard, longest_end, [this] { return state_->finished; });
}

void Terminal::show(std::string_view output) {
  if (!output.empty()) state_->add(state_->output, std::string(output));
}
void Terminal::log(const std::string& line) { state_->add(state_->errors, state_->line_of(line)); }

namespace {

/// Characters of UTF-8.
int width_of(std::string_view line) {
  return static_cast<int>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

std::string back_over(std::string_view shown, TerminalSize size) {
  int rows = 0;
  while (!shown.empty()) {
    const std::size_t end = std::min(shown.find('\n'), shown.size());
    rows += std::max(1, (width_of(shown.substr(0, end)) + size.columns - 1) / size.columns);
    shown.remove_prefix(std::min(end + 1, shown.size()));
  }
  if (rows == 0) return "";
  // The first of more rows than there are have gone up and away.
  return rows < size.rows ? fmt::format("\r\033[{}A\033[J", rows) : "\033[H\033[J";
}

}  // namespace trireme::supervisor
