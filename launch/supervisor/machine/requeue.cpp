#include "launch/supervisor/machine/requeue.h"

#include <cstdlib>
#include <sstream>

#include "trireme/core/error.h"

#include "runtime/core/process/run_program.h"

namespace trireme::supervisor {
namespace {

constexpr double limit_s = 60;

bool is_in_range(const std::string& range, int number) {
  const std::size_t dash = range.find('-');
  const int first = std::atoi(range.c_str());
  const int last = dash == std::string::npos ? first : std::atoi(range.c_str() + dash + 1);
  return first <= number && number <= last;
}

}  // namespace

bool slurm_requeues(const std::string& config, int exit_code) {
  std::istringstream in(config);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key, equals, codes;
    if (!(words >> key >> equals >> codes) || key != "RequeueExit" || equals != "=") continue;
    std::istringstream ranges(codes);
    for (std::string range; std::getline(ranges, range, ',');)
      if (is_in_range(range, exit_code)) return true;
  }
  return false;
}

std::string requeue_slurm_job(const std::string& job, int exit_code) {
  const RunOptions options{.limit_s = limit_s, .ending_s = 1};
  try {
    if (slurm_requeues(run_program({"scontrol", "show", "config"}, options).output, exit_code))
      return str("Slurm queues job ", job, " again (RequeueExit)");
    ChildEnd end = run_program({"scontrol", "requeue", job}, options);
    while (end.output.ends_with('\n')) end.output.pop_back();
    if (!end.output.empty()) return str("scontrol requeue ", job, ": ", end.output);
    return end.why == ChildEnd::Why::by_itself
               ? str("queued Slurm job ", job, " again")
               : str("scontrol requeue ", job, ": no answer within ", limit_s, " s");
  } catch (const Error& error) {
    return str("scontrol requeue ", job, ": ", error.what());
  }
}

}  // namespace trireme::supervisor
