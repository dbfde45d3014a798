// EndSignals: signals that ask this process to end (SIGTERM, SIGINT, SIGHUP) are kept back until
// what it has started has ended, and its files are removed.
#pragma once

namespace trireme::preflight {

class EndSignals {
 public:
  /// Of this thread and those that it starts: create it before them. Throws: Error.
  EndSignals();
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  /// To be polled: it can be read from the first signal on.
  int file() const { return file_; }
  /// Whether there was one. Any thread may ask.
  bool came() const;
  /// Ends this process by the signal that came; returns where none did.
  void obey() const;

 private:
  int file_ = -1;
};

}  // namespace trireme::preflight
