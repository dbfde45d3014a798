// HostEvent: of devices of tests that run everything at once.
#pragma once

#include "trireme/core/device.h"

namespace trireme {

/// Everything is done when a call returns.
class HostEvent final : public Event {
 public:
  void record(Stream&) override {}
  void make_wait(Stream&) override {}
  bool reached() const override { return true; }
  void synchronize() override {}
};

}  // namespace trireme
