#include "launch/calibrate/start.h"

#include <filesystem>

#include "trireme/core/error.h"
#include "trireme/options/problems.h"

#include "launch/supervisor/machine/processes.h"

namespace trireme::calibrate {
namespace {

/// Beside this program.
std::string program_path() {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string path = (here / "trireme_calibrate").string();
  require(supervisor::is_executable(path), path, " is not there: it is installed with trireme");
  return path;
}

}  // namespace

std::string calibrate(const Request& request, const supervisor::EndSignals& signals) {
  constexpr double limit_s = 300;  // it takes less than 60 where nothing else runs
  std::vector<std::string> words = request.mpirun;
  words.insert(words.end(), {"-np", str(request.ranks), program_path()});
  words.insert(words.end(), request.options.begin(), request.options.end());
  words.insert(words.end(), {"--output", std::filesystem::absolute(request.file).string(),
                             "--micro-batch-size", "1", "--global-batch-size", str(request.ranks)});
  const supervisor::ProgramEnd end = verify::run_job(words, limit_s, signals);
  require(end.why != supervisor::ProgramEnd::Why::late, "the calibration did not end within ",
          limit_s, " s:\n", verify::reason_in(end.output));
  if (end.code == static_cast<int>(ExitCode::configuration))
    throw ConfigurationError(verify::reason_in(end.output));
  require(end.code == 0, "the calibration has failed:\n", verify::reason_in(end.output));
  return end.output;
}

}  // namespace trireme::calibrate
