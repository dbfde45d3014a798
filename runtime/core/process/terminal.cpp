#include "runtime/core/process/terminal.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runtime/core/parse_number.h"

namespace trireme {

namespace {

constexpr TerminalSize usual{80, 24};

/// Of the terminal `file`; the usual one where neither it nor COLUMNS says.
TerminalSize size_of(int file) {
  winsize size{};
  if (ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return {size.ws_col, size.ws_row > 0 ? size.ws_row : usual.rows};
  const char* columns = std::getenv("COLUMNS");
  const int given = columns == nullptr ? 0 : std::atoi(columns);
  return {given > 0 ? given : usual.columns, usual.rows};
}

}  // namespace

TerminalSize terminal_size() {
  if (isatty(STDOUT_FILENO) != 1) return {};
  std::array<char, 40> path{};
  fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/fd/1", getppid());
  const int parent = open(path.data(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (parent < 0) return {};
  const TerminalSize size = isatty(parent) == 1 ? size_of(parent) : TerminalSize{};
  close(parent);
  return size;
}

int terminal_columns() { return terminal_size().columns; }

int columns_of_text() {
  constexpr int most = 100;
  const int columns = terminal_columns();
  return columns > 0 ? std::min(columns, most) : usual.columns;
}

}  // namespace trireme
