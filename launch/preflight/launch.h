// Starts trireme_preflight with mpirun, and reads what it has measured.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/preflight/report.h"
#include "launch/supervisor/records/nodes.h"
#include "runtime/core/process/end_signals.h"

namespace trireme::preflight {

struct Launch {
  std::vector<std::string> mpirun = {"mpirun"};  // and options for it
  std::string remote_shell;                      // empty: that of Open MPI
  std::vector<supervisor::Host> hosts;           // empty: this machine
  std::vector<std::string> options;              // options for trireme_preflight
  Index gpus = 0;                       // GPUs per host, with a rank for each; 0: one rank a host
  double seconds = 120;                 // then it is ended
  const EndSignals* signals = nullptr;  // after one it is ended, and no more started
  /// Gets each check when the first host begins with it.
  std::function<void(const std::string& check)> begins = [](const std::string&) {};
  /// Gets each half minute how long it has taken so far, and in which checks hosts are.
  std::function<void(double passed_s, const std::string& where)> waits = [](double,
                                                                            const std::string&) {};
};

/// The program, beside this one. Throws: Error when it is not there.
std::string program_path();

/// Nothing after a signal, or when it failed: a host does not start a rank, or does not reach the
/// others; `why` gets what the first rank that failed said, or the remote shell, and, where the
/// time is over, the checks that had not ended. Throws: ConfigurationError where mpirun starts
/// nothing on any host, as for root.
std::optional<Report> measure(const Launch& launch, std::string& why);
/// Measures as above. Where all together fail, each host alone, 32 at a time: those that fail alone
/// as well are bad, and if none does, all are, as they do not reach each other.
Report measure_each(const Launch& launch);
/// Adds what was measured of GPUs to the report of their nodes: figures, and faults of the nodes.
void add_gpus(const Report& gpus, Report& report);

}  // namespace trireme::preflight
