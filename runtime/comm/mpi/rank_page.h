// RankPage: the status page of this process, and its answers to requests for its stack.
//
// Not installed; modules above may include it.
#pragma once

#include <memory>

#include "runtime/observe/stack/stack_capture.h"
#include "runtime/observe/status_page.h"

namespace trireme {

class RankPage {
 public:
  /// Writes into the directory $TRIREME_PAGES; off without it. A page that cannot be made costs a
  /// line on stderr: the job can do without.
  RankPage();
  observe::StatusPage& page() { return *page_; }

 private:
  std::unique_ptr<observe::StatusPage> page_;
  std::unique_ptr<observe::StackCapture> capture_;
};

}  // namespace trireme
