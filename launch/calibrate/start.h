// Starts trireme_calibrate under mpirun.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/dtype.h"

#include "launch/verify/run_job.h"

namespace trireme::calibrate {

struct Request {
  std::string file;  // the profile to write
  Index ranks = 1;
  std::vector<std::string> mpirun = {"mpirun"};  // and options for it
  std::vector<std::string> options;  // options for train_gpt: the model, threads, the device
};
/// Writes the profile. `take_line`: gets each line of its progress, at once. Throws:
/// ConfigurationError where the options are wrong, Error where it fails, verify::Interrupted.
void calibrate(const Request& request, const EndSignals& signals,
               const std::function<void(std::string_view)>& take_line);

/// Whether a line that such a job prints is of its progress: "  12 s  attention: ...".
bool is_progress(std::string_view line);

}  // namespace trireme::calibrate
