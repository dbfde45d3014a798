// HostStream: a stream for tests of modules that have no kernels: everything runs at once on the
// caller.
#pragma once

#include <cstring>

#include "tests/support/host_event.h"

namespace trireme {

class HostDevice final : public Device {
 public:
  HostDevice() : Device(DeviceTraits{}) {}
  std::string describe() const override { return "host of a test"; }
  const Kernels& kernels() const override { throw Error("this test device has no kernels"); }
  Buffer allocate(Index bytes) override { return allocate_host(bytes); }
  Index free_bytes() const override { return 0; }
  std::unique_ptr<Stream> make_stream() override { throw Error("use HostStream"); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<HostEvent>(); }
};

class HostStream : public Stream {
 public:
  HostStream() : Stream(device_) {}
  explicit HostStream(Device& device) : Stream(device) {}
  void copy(void* to, const void* from, Index bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void zero(void* data, Index bytes) override {
    std::memset(data, 0, static_cast<std::size_t>(bytes));
  }
  void copy(const Tensor&, const Tensor&) override {
    throw Error("this test stream has no kernels");
  }
  void add(const Tensor&, const Tensor&) override {
    throw Error("this test stream has no kernels");
  }
  bool wait_and_check_finite(const Tensor&) override {
    throw Error("this test stream has no kernels");
  }
  void synchronize() override {}
  ThreadPool& pool() override { return pool_; }

 private:
  HostDevice device_;
  ThreadPool pool_{1};
};

}  // namespace trireme
