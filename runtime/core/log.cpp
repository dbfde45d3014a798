#include "trireme/core/log.h"

#include <cstdio>

#include <fmt/core.h>

namespace trireme {

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

void Log::info(std::string_view text) const {
  if (rank_ == 0 && level_ >= LogLevel::info) line(fmt::format("# {}", text));
}

void Log::debug(std::string_view text) const {
  if (rank_ == 0 && level_ >= LogLevel::debug) line(fmt::format("# {}", text));
}

void Log::line(std::string_view text) const {
  if (rank_ != 0 || level_ == LogLevel::quiet) return;
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void Log::warning(std::string_view text) const {
  fmt::print(stderr, "trireme[rank {}] warning: {}\n", rank_, text);
}

}  // namespace trireme
