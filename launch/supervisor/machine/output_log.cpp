#include "launch/supervisor/machine/output_log.h"

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
