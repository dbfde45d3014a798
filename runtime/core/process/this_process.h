// This process: what it does before it opens its first file, signals that ask it to end, and what
// it does last.
//
// Not installed; modules above may include it.
#pragma once

#include <csignal>

namespace trireme {

/// Opens /dev/null in place of each standard stream that is closed: otherwise the next file that is
/// opened takes its number and gets what is printed. Raises the limit of open files (a data source
/// keeps two) to what this user may have. Ignores SIGXFSZ: a write beyond the limit of file sizes
/// is then an error, as on a full disk. Does not ignore SIGCHLD, also where the parent did: the
/// status of a child could then not be asked for. Throws: Error when the system refuses.
void prepare_process();

/// Writes what is left to write to standard output, and returns the exit code of the process:
/// `code`; but 1, after a line on standard error, where `code` is 0 and anything that this process
/// has printed is lost, as on a full disk.
int exit_code_with_output(int code);

/// Returns whether this process ignores a signal. A blocked signal that is ignored still comes to a
/// signalfd.
bool is_ignored(int signal);

/// EndSignals: signals that ask this process to end (SIGTERM, SIGINT, SIGHUP) are kept back until
/// what it has started has ended, and its files are removed. One that this process was started to
/// ignore, as by nohup, stays ignored.
class EndSignals {
 public:
  /// Blocks the signals in this thread and those it starts: create it before them. Throws: Error.
  EndSignals();
  /// A signal that has come and was not taken is forgotten.
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  /// To be polled: it can be read from the first signal on.
  int file() const { return file_; }
  /// Whether there was one. Any thread may ask.
  bool came() const;
  /// The first that came; 0: none. It is taken.
  int take();

 private:
  int file_ = -1;
  sigset_t before_;
};

/// Ends this process by a signal, so that its parent sees which one.
void end_by(int signal);

}  // namespace trireme
