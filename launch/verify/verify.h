// Proves a layout right: trains two steps of a shallow model on it and on one rank, with the same
// seed and batch, and compares what they computed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/verify/judge.h"
#include "launch/verify/program_words.h"
#include "launch/verify/run_job.h"
#include "runtime/core/process/this_process.h"

namespace trireme::verify {

struct Request {
  Words program;
  Index ranks = 0;
  Words mpirun = {"mpirun"};
  std::string directory = ".";
  Index depth = 0;  // blocks; 0: one for each virtual stage
  std::string depth_option = "--num-layers";
  double limit_s = 1800;  // limit per job
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

struct Report {
  std::string program;
  MeshShape mesh{1, 1, 1};
  Index chunks = 1;               // virtual stages of a pipeline rank
  Index depth = 0, of_depth = 0;  // blocks that were trained, of the model's; 0: not known
  bool bf16 = false;
  std::string device;        // "CPU" or "GPU"
  Index one_rank_bytes = 0;  // planned for a CPU
  std::vector<Check> checks = {};
  bool proved() const;
  /// Returns the fault of the first check that has one; null: none.
  const TensorFault* fault() const;
};

/// Throws: ConfigurationError where it cannot be tried, Error where a job fails for another reason,
/// Interrupted.
Report verify(const Request& request, const EndSignals& signals);

std::string to_text(const Report& report);
std::string to_json(const Report& report);  // one line

}  // namespace trireme::verify
