// A device that computes nothing: its kernels return at once, its memory is address space, and a
// clock says when work would be done. What the steps of a plan take is given to it, by the same
// cost functions that the planner uses; what runs between steps takes its bytes over the memory's
// rate.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "trireme/core/device.h"

#include "runtime/cost/op_time.h"
#include "tests/virtual_clock/clock.h"

namespace trireme::virtual_clock {

class VirtualDevice final : public Device {
 public:
  explicit VirtualDevice(const cost::Profile& profile);
  std::string describe() const override { return "virtual " + profile_.name; }
  const Kernels& kernels() const override;
  /// Address space: only what is written takes memory.
  Buffer allocate(Index bytes) override;
  Index free_bytes() const override { return profile_.memory; }
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Event> make_event() override;

  const cost::Profile& profile() const { return profile_; }
  bool owns(const void* data) const;
  Clock& clock() { return clock_; }

 private:
  const cost::Profile& profile_;
  Clock clock_;
  std::vector<std::pair<const std::byte*, const std::byte*>> ranges_;
};

class VirtualStream final : public Stream {
 public:
  explicit VirtualStream(VirtualDevice& device);

  Clock& clock() { return device_.clock(); }
  /// Until end_step() all calls belong to a step of a plan, which takes this; its collectives take
  /// their own time.
  void begin_step(const cost::OpTime& time);
  void end_step() { in_step_ = false; }
  /// A kernel that moves `bytes`.
  void run(double bytes);
  /// The host queues a collective.
  void launch();

  void copy(void* to, const void* from, Index bytes) override;
  void zero(void*, Index bytes) override { run(static_cast<double>(bytes)); }
  void copy(const Tensor& to, const Tensor& from) override {
    run(static_cast<double>(to.bytes() + from.bytes()));
  }
  void add(const Tensor& to, const Tensor& from) override {
    run(static_cast<double>(2 * to.bytes() + from.bytes()));
  }
  bool wait_and_check_finite(const Tensor&) override { return true; }
  void synchronize() override { clock().host_waits(clock().device()); }
  ThreadPool& pool() override;

 private:
  VirtualDevice& device_;
  bool in_step_ = false;
};

}  // namespace trireme::virtual_clock
