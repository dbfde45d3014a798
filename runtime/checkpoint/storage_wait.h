// StorageWait: while it exists, the status page of this rank says that it waits for storage.
#pragma once

#include "runtime/observe/status_page.h"

namespace trireme::checkpoint {

class StorageWait {
 public:
  explicit StorageWait(observe::StatusPage& page) : page_(page), before_(page.phase()) {
    page_.enter(observe::Phase::save_wait);
    page_.wait_for(observe::WaitsFor::storage);
  }
  ~StorageWait() {
    page_.stop_waiting();
    page_.enter(before_);
  }
  StorageWait(const StorageWait&) = delete;
  StorageWait& operator=(const StorageWait&) = delete;

 private:
  observe::StatusPage& page_;
  const observe::Phase before_;
};

}  // namespace trireme::checkpoint
