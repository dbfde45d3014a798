// HostEvent: an event for test devices whose calls finish their work before they return.
#pragma once

#include "trireme/core/device.h"

namespace trireme {

/// Nothing is ever pending, so there is nothing to record or to wait for.
class HostEvent final : public Event {
 public:
  void record(Stream&) override {}
  void make_wait(Stream&) override {}
  bool reached() const override { return true; }
  void synchronize() override {}
};

}  // namespace trireme
