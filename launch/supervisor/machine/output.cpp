#include "launch/supervisor/machine/output.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/files/plain_file.h"
#include "runtime/core/require_call.h"

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

namespace {

constexpr std::size_t longest_line = 4096, longest_error = 400;

/// The word behind `mark`; empty: there is no such text.
std::string word_behind(const std::string& line, const std::string& mark) {
  const std::size_t at = line.find(mark);
  if (at == std::string::npos) return "";
  std::string word;
  std::istringstream(line.substr(at + mark.size())) >> word;
  return word;
}

bool names_an_error(std::string line) {
  std::transform(line.begin(), line.end(), line.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* of_open_mpi : {"orte_error_log", "*** end of error message"})
    if (line.find(of_open_mpi) != std::string::npos) return false;
  for (const char* mark : {"error", "cannot run", "terminate called"})
    if (line.find(mark) != std::string::npos) return true;
  return false;
}

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r-") == std::string::npos;
}

/// Calls `take` for each line of the text, without its end, which a remote shell writes as "\r\n".
/// `open`: the line before it, so far.
template <class Take>
void split_lines(std::string_view text, std::string& open, const Take& take) {
  for (const char c : text) {
    if (c == '\n') {
      if (open.ends_with('\r')) open.pop_back();
      take(open);
      open.clear();
    } else if (open.size() < longest_line) {
      open += c;
    }
  }
}

}  // namespace

void EvidenceReader::read(std::string_view text) {
  split_lines(text, open_, [this](const std::string& line) { read_line(line); });
  split_lines(outside_.pass(text), open_of_program_,
              [this](const std::string& line) { read_line_of_program(line); });
  note_boxes();
}

/// Also of boxes.
void EvidenceReader::read_line(const std::string& line) {
  // A rank waits 2 s for its daemon (PMIx_Finalize), which may be longer on a busy machine.
  if (line.find("but exited without calling \"finalize\"") != std::string::npos) {
    found_.end_missed = true;
    if (found_.first_error.empty()) found_.first_error = line.substr(0, longest_error);
  }
  // "mpirun noticed that process rank 2 with PID 0 on node n1 exited on signal 9 (Killed)."
  if (found_.rank_host.empty() && line.find("exited on signal") != std::string::npos) {
    found_.rank_host = word_behind(line, " on node ");
    const std::string rank = word_behind(line, " process rank ");
    found_.dead_rank = rank.empty() ? -1 : std::atoi(rank.c_str());
    found_.dead_signal = std::atoi(word_behind(line, " exited on signal ").c_str());
  }
  for (const char* of_remote_shell : {"unable to reliably start one or more daemons",
                                      "daemon has unexpectedly failed after launch and before"})
    if (line.find(of_remote_shell) != std::string::npos) found_.daemon_lost = true;
  if (found_.refusal.empty()) found_.refusal = refusal_of(line);
  // "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks ..."
  if (line.starts_with("slurmstepd") && (line.find("oom_kill event") != std::string::npos ||
                                         line.find("oom-kill event") != std::string::npos))
    found_.out_of_memory = line.substr(0, longest_error);
  // "  Remote daemon: [[15405,0],2] on node n2"
  if (found_.lost_host.empty() && line.find("Remote daemon:") != std::string::npos)
    found_.lost_host = word_behind(line, " on node ");
}

/// Of the program, or of what starts it on a host.
void EvidenceReader::read_line_of_program(const std::string& line) {
  constexpr const char* item = "  - ";
  if (std::exchange(is_heading_, false) && line.starts_with(item))
    found_.first_error = line.substr(std::strlen(item), longest_error) + others_;
  if (found_.first_error.empty() && names_an_error(line)) {
    found_.first_error = line.substr(0, longest_error);
    // "trireme: this configuration cannot run: 2 problems"
    is_heading_ = line.ends_with(" problem") || line.ends_with(" problems");
    others_ = line.ends_with(" problems")
                  ? " (the first of " + line.substr(line.rfind(": ") + 2) + ")"
                  : "";
  }
  if (!is_blank(line)) found_.last_line = line.substr(0, longest_error);
}

void EvidenceReader::note_boxes() {
  for (; boxes_noted_ < outside_.left_out().size(); ++boxes_noted_) {
    const std::string& first_line = outside_.left_out()[boxes_noted_];
    if (found_.refusal.empty()) found_.refusal = refusal_in(first_line);
    if (found_.box.empty() && says_why(first_line)) found_.box = first_line;
  }
}

OutputLog::OutputLog(std::string path, Index most_bytes)
    : path_(std::move(path)), most_bytes_(most_bytes) {
  open();
  require_call(file_ >= 0, path_, ": open");
}

OutputLog::~OutputLog() { ::close(file_); }

void OutputLog::open() { file_ = open_plain_file(path_, O_WRONLY | O_CREAT | O_APPEND, 0644); }

void OutputLog::write(std::string_view text) {
  if (bytes_ + static_cast<Index>(text.size()) > most_bytes_ && bytes_ > 0) {
    bytes_ = 0;
    if (std::rename(path_.c_str(), (path_ + ".1").c_str()) == 0) {
      ::close(file_);
      open();
    }
  }
  bytes_ += static_cast<Index>(text.size());
  while (!text.empty()) {
    const ssize_t written = ::write(file_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace trireme::supervisor
