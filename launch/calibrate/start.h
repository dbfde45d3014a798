// Starts trireme_calibrate under mpirun.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/dtype.h"

#include "launch/verify/run_job.h"

namespace trireme::calibrate {

struct Request {
  std::string file;  // of the profile
  Index ranks = 1;
  std::vector<std::string> mpirun = {"mpirun"};  // and options for it
  std::vector<std::string> options;              // of train_gpt: the model, threads, the device
};
/// Writes the profile, and returns what was printed. Throws: ConfigurationError where the options
/// are wrong, Error where it fails, verify::Interrupted.
std::string calibrate(const Request& request, const supervisor::EndSignals& signals);

}  // namespace trireme::calibrate
