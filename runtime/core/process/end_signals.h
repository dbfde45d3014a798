// EndSignals: signals that ask this process to end (SIGTERM, SIGINT, SIGHUP) are kept back until
// what it has started has ended, and its files are removed. One that this process was started to
// ignore, as by nohup, stays ignored.
//
// Not installed; modules above may include it.
#pragma once

#include <csignal>

namespace trireme {

/// Whether this process ignores a signal. A blocked signal that is ignored still comes to a
/// signalfd.
bool is_ignored(int signal);

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
