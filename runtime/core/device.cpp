#include "trireme/core/device.h"

#include <chrono>

#include "trireme/core/error.h"

namespace trireme {
namespace {

class ClockTimer final : public Event {
 public:
  void record(Stream&) override { at_ = std::chrono::steady_clock::now(); }
  void make_wait(Stream&) override {}
  bool reached() const override { return true; }
  void synchronize() override {}
  double seconds_since(const Event& earlier) const override {
    const auto* timer = dynamic_cast<const ClockTimer*>(&earlier);
    require(timer != nullptr, "the event before this timer is no timer of the same device");
    return std::chrono::duration<double>(at_ - timer->at_).count();
  }

 private:
  std::chrono::steady_clock::time_point at_;
};

}  // namespace

double Event::seconds_since(const Event&) const {
  throw Error("an event that Device::make_timer did not make keeps no time");
}

std::unique_ptr<Event> Device::make_timer() { return std::make_unique<ClockTimer>(); }

}  // namespace trireme
