#include "runtime/job/terminal.h"

#include <array>
#include <cstdlib>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runtime/core/parse_number.h"

namespace trireme {

namespace {

/// Of the terminal `file`; 80 where neither it nor COLUMNS says.
int columns_of(int file) {
  winsize size{};
  if (ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const int given = columns == nullptr ? 0 : std::atoi(columns);
  return given > 0 ? given : 80;
}

}  // namespace

int terminal_columns() {
  if (isatty(STDOUT_FILENO) != 1) return 0;
  std::array<char, 40> path{};
  fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/fd/1", getppid());
  const int parent = open(path.data(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (parent < 0) return 0;
  const int columns = isatty(parent) == 1 ? columns_of(parent) : 0;
  close(parent);
  return columns;
}

}  // namespace trireme
