#include "launch/supervisor/machine/output_log.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme::supervisor {
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
  for (const char* mark :
       {"error", "cannot run", "] signal: ", "exited on signal", "terminate called"})
    if (line.find(mark) != std::string::npos) return true;
  return false;
}

}  // namespace

void EvidenceReader::read(std::string_view text) {
  for (const char c : text) {
    if (c == '\n') {
      read_line(open_);
      open_.clear();
    } else if (open_.size() < longest_line) {
      open_ += c;
    }
  }
}

void EvidenceReader::read_line(const std::string& line) {
  // What mpirun says of a signal has the rank, which the handler in the process does not say.
  const bool says_more = found_.first_error.find("] Signal: ") != std::string::npos &&
                         line.find("exited on signal") != std::string::npos;
  // A rank waits 2 s for its daemon (PMIx_Finalize), which may be longer on a busy machine.
  const bool end_missed = line.find("but exited without calling \"finalize\"") != std::string::npos;
  found_.end_missed = found_.end_missed || end_missed;
  if ((found_.first_error.empty() && (names_an_error(line) || end_missed)) || says_more)
    found_.first_error = line.substr(0, longest_error);
  if (line.find("device: CPU ") != std::string::npos) found_.gpus_per_rank = 0;
  if (line.find("device: GPU ") != std::string::npos) found_.gpus_per_rank = 1;
  // "mpirun noticed that process rank 2 with PID 0 on node n1 exited on signal 9 (Killed)."
  if (found_.rank_host.empty() && line.find("exited on signal") != std::string::npos)
    found_.rank_host = word_behind(line, " on node ");
  if (line.find("unable to reliably start one or more daemons") != std::string::npos)
    found_.daemon_lost = true;  // what mpirun says when the remote shell of a host ends
  // "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks ..."
  if (line.starts_with("slurmstepd") && (line.find("oom_kill event") != std::string::npos ||
                                         line.find("oom-kill event") != std::string::npos))
    found_.out_of_memory = line.substr(0, longest_error);
  // "  Remote daemon: [[15405,0],2] on node n2"
  if (found_.lost_host.empty() && line.find("Remote daemon:") != std::string::npos)
    found_.lost_host = word_behind(line, " on node ");
}

OutputLog::OutputLog(std::string path, Index most_bytes)
    : path_(std::move(path)), most_bytes_(most_bytes) {
  open();
  require_call(file_ >= 0, path_, ": open");
}

OutputLog::~OutputLog() { ::close(file_); }

void OutputLog::open() {
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

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
