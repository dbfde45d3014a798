// Runs a program under io_shim, with the path of the library in TRIREME_IO_SHIM
// (trireme_use_io_shim in CMake).
#pragma once

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <sys/wait.h>

namespace trireme {

/// Quoted for sh.
inline std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

struct Fault {
  std::string root;         // TRIREME_SHIM_ROOT
  long call = 0;            // TRIREME_SHIM_CALL
  std::string what;         // TRIREME_SHIM_FAULT
  std::string record = "";  // TRIREME_SHIM_RECORD
};

/// ShimRun::code of a program that a fault has ended.
inline constexpr int died = 137;

struct ShimRun {
  int code = 0;        // exit code; 128 + signal
  long calls = 0;      // that were counted, over all processes; -1: not reported
  std::string output;  // stdout and stderr
};

/// `command`: for sh. `log`: a file that does not exist yet, outside of the root.
inline ShimRun run_with_shim(const std::string& command, const Fault& fault,
                             const std::string& log) {
  // A sanitizer in the program must not mind that the shim is loaded before its runtime.
  const std::string line = "TRIREME_SHIM_ROOT=" + quoted(fault.root) +
                           " TRIREME_SHIM_CALL=" + std::to_string(fault.call) +
                           " TRIREME_SHIM_FAULT=" + quoted(fault.what) +
                           " TRIREME_SHIM_RECORD=" + quoted(fault.record) +
                           " TRIREME_SHIM_LOG=" + quoted(log) +
                           " ASAN_OPTIONS=\"$ASAN_OPTIONS:verify_asan_link_order=0\"" +
                           " LD_PRELOAD=" + quoted(TRIREME_IO_SHIM) + " " + command + " 2>&1";
  ShimRun run;
  FILE* pipe = ::popen(line.c_str(), "r");
  if (pipe == nullptr) return {.code = -1, .calls = -1, .output = "popen failed"};
  char buffer[4096];
  for (std::size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    run.output.append(buffer, got);
  const int status = ::pclose(pipe);
  run.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  std::ifstream lines(log);
  run.calls = lines.good() ? 0 : -1;
  for (long rank, calls; lines >> rank >> calls;) run.calls += calls;
  lines.close();
  std::remove(log.c_str());
  return run;
}

}  // namespace trireme
