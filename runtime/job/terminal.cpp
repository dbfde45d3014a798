#include "runtime/job/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace trireme {

bool stdout_is_terminal() {
  if (isatty(STDOUT_FILENO) != 1) return false;
  const int parent =
      open(fmt::format("/proc/{}/fd/1", getppid()).c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (parent < 0) return false;
  const bool terminal = isatty(parent) == 1;
  close(parent);
  return terminal;
}

}  // namespace trireme
