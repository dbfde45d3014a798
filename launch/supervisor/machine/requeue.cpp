#include "launch/supervisor/machine/requeue.h"

#include <cstdlib>
#include <sstream>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/ask_program.h"

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
  if (slurm_requeues(ask_program({"scontrol", "show", "config"}, limit_s).text, exit_code))
    return str("Slurm queues job ", job, " again (RequeueExit)");
  auto [answer, whole] = ask_program({"scontrol", "requeue", job}, limit_s);
  while (answer.ends_with('\n')) answer.pop_back();
  if (!answer.empty()) return str("scontrol requeue ", job, ": ", answer);
  return whole ? str("queued Slurm job ", job, " again")
               : str("scontrol requeue ", job, ": no answer within ", limit_s, " s");
}

}  // namespace trireme::supervisor
