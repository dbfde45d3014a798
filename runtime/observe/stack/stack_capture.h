// The stack of a rank that is stuck, without a debugger: on SIGUSR2 the rank writes the addresses
// of its stack into its status page; the collector on the same machine gives them names.
//
// Not installed; modules above may include it.
#pragma once

#include <csignal>
#include <string>
#include <vector>

#include "runtime/observe/page_reader.h"
#include "runtime/observe/status_page.h"

namespace trireme::observe {

/// Answers SIGUSR2 while it exists; the process ignores the signal afterwards, unless it had a
/// handler before. One at a time in a process; `page` outlives it. Does nothing for a page that is
/// off.
class StackCapture {
 public:
  /// Throws: Error when there is another one, or the handler cannot be installed.
  explicit StackCapture(StatusPage& page);
  ~StackCapture();
  StackCapture(const StackCapture&) = delete;
  StackCapture& operator=(const StackCapture&) = delete;

 private:
  bool installed_ = false;
  struct sigaction before_ {};
};

/// The stack of a rank of this machine, innermost frame first, one line each:
/// "attention_backward(Tensor const&) +0x1c (libtrireme.so)", or where there is no symbol
/// "libmpi.so.40 +0x5e1f3 (build id 1f0a...)". `why` says what is missing when it is empty: a
/// stopped process, for example, runs no handler.
struct NamedStack {
  std::vector<std::string> frames;
  std::string why;
};
/// Sends SIGUSR2 to the process of the page, if it is still that process and catches the signal,
/// and waits up to `seconds` for its answer. The time that a process in a system call loses is that
/// of a signal handler (SA_RESTART).
NamedStack capture_stack(const PageReader& page, double seconds);

}  // namespace trireme::observe
