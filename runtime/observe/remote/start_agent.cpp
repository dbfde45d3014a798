#include "runtime/observe/remote/start_agent.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme::observe {
namespace {

/// Without what makes this process a rank.
std::vector<char*> environment_of_agent() {
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (!text.starts_with("OMPI_") && !text.starts_with("PMIX_")) variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  return variables;
}

/// All files but standard input and output. `files`: how many there may be, where the kernel
/// (before 5.9) does not close them itself.
void close_others(long files) {
#ifdef SYS_close_range
  if (::syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) == 0) return;
#endif
  for (int file = STDERR_FILENO + 1; file < files; ++file) ::close(file);
}

/// In a child: calls only what is safe there.
[[noreturn]] void become(char** words, char** variables, long files) {
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);  // the launcher waits until this is closed
  close_others(files);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(words[0], words, variables);
  ::_exit(1);
}

}  // namespace

void start_agent(const std::string& program, const std::string& directory) {
  require_call(::access(program.c_str(), X_OK) == 0, program);
  std::string words[] = {program, "report-pages", directory};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  std::vector<char*> variables = environment_of_agent();
  constexpr long most_files = 65536;  // the limit of a container may be 2^30
  const long files = std::min(::sysconf(_SC_OPEN_MAX), most_files);
  const pid_t child = ::fork();
  require_call(child >= 0, "fork");
  if (child == 0) {
    ::setsid();  // the launcher ends the process groups of its ranks
    const pid_t agent = ::fork();
    if (agent != 0) ::_exit(agent < 0 ? 1 : 0);
    become(arguments, variables.data(), files);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  require(status == 0, "fork: the system made no process for ", program);
}

}  // namespace trireme::observe
