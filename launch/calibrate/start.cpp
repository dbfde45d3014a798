#include "launch/calibrate/start.h"

#include <algorithm>
#include <filesystem>

#include "trireme/core/error.h"
#include "trireme/options/problems.h"

#include "launch/program_of_trireme.h"

namespace trireme::calibrate {

bool is_progress(std::string_view line) {
  const std::size_t digits = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t behind = line.find_first_not_of("0123456789", digits);
  return behind != digits && behind != std::string_view::npos &&
         line.substr(behind).starts_with(" s  ");
}

void calibrate(const Request& request, const EndSignals& signals,
               const std::function<void(std::string_view)>& take_line) {
  constexpr double limit_s = 300;  // it takes less than 60 where nothing else runs
  std::vector<std::string> words = request.mpirun;
  words.insert(words.end(), {"-np", str(request.ranks), program_of_trireme("trireme_calibrate")});
  words.insert(words.end(), request.options.begin(), request.options.end());
  words.insert(words.end(), {"--profile", std::filesystem::absolute(request.file).string(),
                             "--micro-batch-size", "1", "--global-batch-size", str(request.ranks)});
  const ChildEnd end = verify::run_job(words, limit_s, signals, [&](std::string_view line) {
    if (is_progress(line)) take_line(line);  // others are of mpirun, or a reason to fail
  });
  require(end.why != ChildEnd::Why::late, "the calibration did not end within ", limit_s, " s:\n",
          verify::reason_in(end.output));
  if (end.code() == static_cast<int>(ExitCode::configuration))
    throw ConfigurationError(verify::reason_in(end.output));
  require(end.code() == 0, "the calibration has failed:\n", verify::reason_in(end.output));
}

}  // namespace trireme::calibrate
