#include "launch/supervisor/machine/open_mpi_boxes.h"

#include <algorithm>
#include <utility>

namespace trireme::supervisor {
namespace {

constexpr std::size_t shortest_rule = 60, most_held = 4096;
constexpr int most_lines = 60;  // of a box

struct Box {
  std::string_view first_line;    // or its beginning
  std::string_view refusal = {};  // why nothing was started, with the remedy
  bool says_why = false;          // the job has ended; its first line is a sentence
};
// Those of Open MPI 4.1 about a job that ends, or does not start.
constexpr Box boxes[] = {
    {"Primary job  terminated normally, but"},
    {"mpirun noticed that process rank"},
    {"mpirun detected that one or more processes exited"},
    {"mpirun has exited due to process rank"},
    {"MPI_ABORT was invoked on rank", {}, true},
    {"ORTE has lost communication with a remote daemon"},
    {"ORTE was unable to reliably start one or more daemons"},
    {"An ORTE daemon has unexpectedly failed after launch"},
    {"ORTE does not know how to route a message to the specified daemon"},
    {"An internal error has occurred in ORTE"},
    {"There are not enough slots available",
     "mpirun has fewer slots than ranks, which are the cores of this machine where nothing else "
     "says how many: give fewer ranks (-n), or --mpirun \"mpirun --oversubscribe\""},
    {"mpirun has detected an attempt to run as root",
     "mpirun does not run as root: start it as another user, or export OMPI_ALLOW_RUN_AS_ROOT=1 "
     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
    {"The SLURM process starter for OpenMPI was unable to locate a",
     "SLURM_JOBID is set, so mpirun starts ranks by srun, and there is no srun: outside of a Slurm "
     "job unset the variables SLURM_*, in a job put srun into PATH"},
    {"While trying to determine what resources are available, the SLURM",
     "SLURM_JOBID is set, and other variables of a Slurm job are not: outside of one unset the "
     "variables SLURM_*"},
    {"mpirun was unable to find the specified executable file",
     "mpirun finds no program of that name on a host: it needs the same path on each; a word of "
     "--mpirun that is no option is taken for a program"},
    {"mpirun was unable to launch the specified application as it could not",
     "mpirun cannot start the program on a host: it and the working directory have to be there on "
     "each"},
    {"A request was made to bind to that would result in binding more",
     "--mpirun binds more ranks to cores than a host has: give fewer ranks (-n), or --mpirun "
     "\"mpirun --bind-to none\""},
    {"A request for multiple cpus-per-proc was given",
     "--mpirun asks for more cores for a rank than a host has"},
};

const Box* box_with(std::string_view first_line) {
  for (const Box& box : boxes)
    if (first_line.starts_with(box.first_line)) return &box;
  return nullptr;
}

bool is_dashes(std::string_view text) {
  return text.find_first_not_of('-') == std::string_view::npos;
}

bool is_rule(std::string_view line) { return line.size() >= shortest_rule && is_dashes(line); }

/// Returns the number behind " job "; empty: there is none.
std::string_view job_in(std::string_view line) {
  constexpr std::string_view mark = " job ";
  const std::size_t at = line.find(mark);
  if (at == std::string_view::npos) return {};
  const std::string_view behind = line.substr(at + mark.size());
  return behind.substr(0, behind.find_first_not_of("0123456789"));
}

/// Whether srun says that there is no such Slurm job. What it says of a controller that does not
/// answer, or is busy, may have changed at the next attempt.
bool says_that_the_job_is_gone(std::string_view line) {
  if (!line.starts_with("srun: error: ") || job_in(line).empty()) return false;
  for (const std::string_view end :
       {" has expired", ": Invalid job id specified", ": Job/step already completing or completed"})
    if (line.find(end) != std::string_view::npos) return true;
  return false;
}

}  // namespace

std::string refusal_of(std::string_view line) {
  constexpr std::size_t longest = 400;
  if (line.starts_with("mpirun: Error: unknown option"))
    return std::string(line.substr(0, longest)) + ", which --mpirun has";
  if (!says_that_the_job_is_gone(line)) return "";
  return "the Slurm job " + std::string(job_in(line)) +
         " of the environment does not exist or has ended, so srun starts no ranks: unset the "
         "variables SLURM_*, or start inside of a job";
}

std::string refusal_in(std::string_view first_line) {
  const Box* box = box_with(first_line);
  return box == nullptr ? "" : std::string(box->refusal);
}

bool says_why(std::string_view first_line) {
  const Box* box = box_with(first_line);
  return box != nullptr && box->says_why;
}

std::string OutsideBoxes::pass(std::string_view text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (partly_shown_) {
      const std::size_t end = std::min(text.find('\n', i), text.size());
      shown += text.substr(i, end - i);
      i = end;
      if (i == text.size()) break;
    }
    line_ += text[i];
    if (text[i] == '\n') {
      end_line(shown);
      continue;
    }
    const bool may_begin_a_box = !rule_.empty() || (!partly_shown_ && is_dashes(line_));
    if ((in_box_ || may_begin_a_box) && line_.size() < most_held) continue;
    shown += std::exchange(rule_, "") + std::exchange(line_, "");
    partly_shown_ = true;
  }
  return shown;
}

/// `line_` is the end of a line, or all of one where nothing of it is shown.
void OutsideBoxes::end_line(std::string& shown) {
  const std::string line = std::exchange(line_, "");
  const std::string_view bare = std::string_view(line).substr(0, line.size() - 1);
  const bool rule = !std::exchange(partly_shown_, false) && is_rule(bare);
  if (in_box_) {
    in_box_ = !rule && ++lines_ < most_lines;
  } else if (!rule_.empty() && box_with(bare) != nullptr) {
    in_box_ = true;
    lines_ = 0;
    rule_.clear();
    left_out_.emplace_back(bare);
  } else {
    shown += std::exchange(rule_, "");
    (rule ? rule_ : shown) += line;
  }
}

std::string OutsideBoxes::rest() {
  return std::exchange(rule_, "") + (in_box_ ? "" : std::exchange(line_, ""));
}

}  // namespace trireme::supervisor
