// trireme report-pages: started by the first rank of each node, where the supervisor is on another
// machine.
#include <cstdlib>
#include <iostream>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "launch/supervisor/commands/commands.h"
#include "runtime/core/process/this_machine.h"
#include "runtime/observe/remote/page_agent.h"

namespace trireme::supervisor {
namespace {

constexpr double connect_s = 10;

/// A rank may be bound to a core, which is its own.
void leave_the_core_of_the_rank() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &all);
  ::sched_setaffinity(0, sizeof all, &all);
}

/// The launcher waits for the end of the output.
void close_output() {
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(null, STDERR_FILENO);
}

/// Whether the supervisor takes the pages. One that cannot has said so, and gives no address.
bool connect(observe::PageAgent& agent) {
  const char* given = std::getenv("TRIREME_PAGES_TO");
  const std::string address = given == nullptr ? "missing" : given;
  if (address.empty()) return false;
  try {
    agent.connect(observe::parse_supervisor_address(address), connect_s);
    return true;
  } catch (const Error& error) {
    std::cerr << "trireme: warning: the status pages of " << host_name()
              << " are not seen, training continues: " << error.what() << std::endl;
    return false;
  }
}

ExitCode report(const std::string& directory) {
  leave_the_core_of_the_rank();
  observe::PageAgent agent(directory);
  const bool connected = connect(agent);
  close_output();
  if (connected) agent.serve();
  agent.wait_for_ranks();  // a connection that is lost says nothing of them
  agent.clean();
  return ExitCode::success;
}

int report_pages(int argc, char** argv) {
  std::string directory;
  CommandLine command("trireme report-pages",
                      "Sends the status pages of this node to the supervisor at TRIREME_PAGES_TO, "
                      "and removes them when it has ended. Ranks start it; users need not.");
  command.positional("DIRECTORY", directory, "directory of the pages");
  return parse_and_run(
      command, argc, argv, [](Problems&) {}, [&] { return report(directory); });
}

}  // namespace

std::vector<Subcommand> report_pages_commands() {
  return {{{"report-pages"},
           "DIRECTORY",
           "send status pages to a supervisor (started by ranks)",
           report_pages}};
}

}  // namespace trireme::supervisor
