// Clock: the computed time of one simulated rank.
#pragma once

#include <algorithm>

namespace trireme::virtual_clock {

/// In seconds. The host of a GPU queues work ahead of its device; the host of a CPU rank does all
/// work, so that both have one time.
class Clock {
 public:
  explicit Clock(bool queues) : queues_(queues) {}

  /// The host queues work, which takes `device_seconds` once the device is free.
  void run(double host_seconds, double device_seconds) {
    host_ += host_seconds;
    device_ = std::max(device_, host_) + device_seconds;
    busy_ += device_seconds;
    if (!queues_) host_ = device_;
  }
  /// What is queued from now on begins at `time` or later.
  void device_waits(double time) {
    device_ = std::max(device_, time);
    if (!queues_) host_ = device_;
  }
  void host_waits(double time) {
    host_ = std::max(host_, time);
    if (!queues_) device_ = host_;
  }

  /// When the device is done with what is queued.
  double device() const { return device_; }
  /// When work that is queued now can begin.
  double now() const { return std::max(device_, host_); }
  /// What the device has computed so far.
  double busy() const { return busy_; }
  bool queues() const { return queues_; }

 private:
  bool queues_;
  double host_ = 0, device_ = 0, busy_ = 0;
};

}  // namespace trireme::virtual_clock
