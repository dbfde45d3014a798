// Runs one job after the other, so that a signal ends the job and leaves nothing.
#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <vector>

namespace trireme::verify {

/// While it lives, SIGINT, SIGTERM and SIGHUP wait here and do not end the process.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  int file() const { return file_; }  // readable when one has come
  /// The first that has come; 0: none.
  int first();

 private:
  int file_ = -1, first_ = 0;
  sigset_t before_;
};

/// A signal has come. Not a std::exception, so that no handler takes it for a failure.
struct Interrupted {
  int signal;
};

/// A directory of its own in `parent`, removed with all that is in it.
class JobDirectory {
 public:
  explicit JobDirectory(const std::string& parent);
  ~JobDirectory();
  JobDirectory(const JobDirectory&) = delete;
  JobDirectory& operator=(const JobDirectory&) = delete;
  const std::string& path() const { return path_; }
  /// A new directory in it.
  std::string folder(const std::string& name) const;

 private:
  std::string path_;
};

struct JobEnd {
  std::optional<int> code;  // nothing: it did not end in time, or by a signal
  bool late = false;
  std::string output;  // standard output and error: the beginning and the end of it
};
/// Runs a program to its end. Throws: Interrupted, after the program has ended.
JobEnd run_job(const std::vector<std::string>& words, double limit_s, Signals& signals);

/// What a job that failed has said: its own messages, else its last lines.
std::string reason_in(const std::string& output);

}  // namespace trireme::verify
