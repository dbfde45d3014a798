// Starts trireme_preflight with mpirun, and reads what it has measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/preflight/report.h"
#include "launch/supervisor/records/nodes.h"

namespace trireme::preflight {

struct Launch {
  std::vector<std::string> mpirun = {"mpirun"};  // and options for it
  std::string remote_shell;                      // empty: that of Open MPI
  std::vector<supervisor::Host> hosts;           // empty: this machine
  std::vector<std::string> options;              // of trireme_preflight
  double seconds = 120;                          // then it is ended
};

/// The program, beside this one. Throws: Error when it is not there.
std::string program_path();

/// One rank on each host. Nothing when it failed: a host does not start a rank, or does not reach
/// the others; `why` gets the last lines that it printed.
std::optional<Report> measure(const Launch& launch, std::string& why);
/// As above. Where all together fail, each host alone: those that fail alone as well are bad, and
/// if none does, all are, as they do not reach each other.
Report measure_each(const Launch& launch);

}  // namespace trireme::preflight
