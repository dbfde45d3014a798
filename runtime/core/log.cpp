#include "trireme/core/log.h"

#include <iterator>
#include <mutex>

#include <fmt/format.h>

#include "runtime/core/text/line_clock.h"

namespace trireme {

struct Log::State {
  explicit State(std::FILE* to) : file(to) {}
  /// Writes a line to `to`, over what is shown.
  void write(std::FILE* to, std::string_view text) {
    const std::lock_guard lock(mutex);
    hide();
    // At once, as other processes may write there too. What is lost costs the job nothing until it
    // ends (this_process.h).
    fmt::memory_buffer line;
    fmt::format_to(std::back_inserter(line), "{}\n", text);
    std::fwrite(line.data(), 1, line.size(), to);
    std::fflush(to);
  }
  void hide() {
    if (!shown) return;
    shown = false;
    std::fputs("\r\033[K", file);
    std::fflush(file);
  }

  std::mutex mutex;
  std::FILE* file;
  LineClock clock;
  bool shown = false;  // progress
};

const char* name(LogLevel level) {
  switch (level) {
    case LogLevel::quiet:
      return "quiet";
    case LogLevel::info:
      return "info";
    case LogLevel::debug:
      return "debug";
  }
  return "";
}

Log::Log(int rank, LogLevel level, std::FILE* file)
    : rank_(rank), level_(level), state_(std::make_unique<State>(file)) {}
Log::~Log() = default;

void Log::info(std::string_view text) const {
  if (rank_ != 0 || level_ < LogLevel::info) return;
  std::string stamp;
  {
    const std::lock_guard lock(state_->mutex);
    stamp = state_->clock.stamp();
  }
  line(fmt::format("# {} {}", stamp, text));
}

void Log::debug(std::string_view text) const {
  if (level_ >= LogLevel::debug) info(text);
}

void Log::line(std::string_view text) const {
  if (rank_ == 0 && level_ != LogLevel::quiet) state_->write(state_->file, text);
}

void Log::result(std::string_view text) const {
  if (rank_ == 0) state_->write(stdout, text);
}

void Log::progress(std::string_view text) const {
  if (rank_ != 0 || level_ == LogLevel::quiet) return;
  const std::lock_guard lock(state_->mutex);
  state_->shown = true;
  std::fputc('\r', state_->file);
  std::fwrite(text.data(), 1, text.size(), state_->file);
  std::fputs("\033[K", state_->file);
  std::fflush(state_->file);
}

void Log::warning(std::string_view text) const {
  state_->write(stderr, fmt::format("trireme[rank {}] warning: {}", rank_, text));
}

}  // namespace trireme
