// A device for the graph tests: plain loops on the host, since this room may not use the kernels.
#pragma once

#include <cmath>
#include <cstring>

#include "trireme/core/device.h"

namespace trireme::test {

/// Calls f(offset) with the element offset of every index of `shape` under two sets of strides.
inline void for_each(const Shape& shape, const Shape& a, const Shape& b,
                     FunctionRef<void(Index, Index)> f) {
  const Index count = shape.count();
  for (Index i = 0; i < count; ++i) {
    Index rest = i, at_a = 0, at_b = 0;
    for (int d = shape.dims() - 1; d >= 0; --d) {
      at_a += rest % shape[d] * a[d];
      at_b += rest % shape[d] * b[d];
      rest /= shape[d];
    }
    f(at_a, at_b);
  }
}

class TestStream final : public Stream {
 public:
  explicit TestStream(Device& device) : Stream(device), pool_(1) {}
  void copy(void* to, const void* from, Index bytes) override {
    std::memmove(to, from, static_cast<std::size_t>(bytes));
  }
  void zero(void* data, Index bytes) override {
    std::memset(data, 0, static_cast<std::size_t>(bytes));
  }
  void copy(const Tensor& to, const Tensor& from) override {
    require(to.shape == from.shape && to.dtype == from.dtype, "copy of different tensors");
    const auto size = static_cast<std::size_t>(size_bytes(to.dtype));
    for_each(to.shape, to.strides, from.strides, [&](Index a, Index b) {
      std::memcpy(static_cast<std::byte*>(to.data) + a * static_cast<Index>(size),
                  static_cast<std::byte*>(from.data) + b * static_cast<Index>(size), size);
    });
  }
  void add(const Tensor& to, const Tensor& from) override {
    require(to.shape == from.shape && to.dtype == from.dtype, "sum of different tensors");
    if (to.dtype == DType::f64)
      for_each(to.shape, to.strides, from.strides,
               [&](Index a, Index b) { to.as<double>()[a] += from.as<double>()[b]; });
    else
      for_each(to.shape, to.strides, from.strides,
               [&](Index a, Index b) { to.as<float>()[a] += from.as<float>()[b]; });
  }
  bool wait_and_check_finite(const Tensor& x) override {
    bool finite = true;
    for_each(x.shape, x.strides, x.strides, [&](Index a, Index) {
      finite &= x.dtype == DType::f64 ? std::isfinite(x.as<double>()[a])
                                      : std::isfinite(x.as<float>()[a]);
    });
    return finite;
  }
  void synchronize() override {}
  ThreadPool& pool() override { return pool_; }

 private:
  ThreadPool pool_;
};

class TestDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string describe() const override { return "plain loops"; }
  const Kernels& kernels() const override { throw Error("the test device has no kernels"); }
  Buffer allocate(Index bytes) override { return allocate_host(bytes); }
  Index free_bytes() const override { return Index{1} << 30; }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<TestStream>(*this); }
  std::unique_ptr<Event> make_event() override { throw Error("the test device has no events"); }
};

}  // namespace trireme::test
