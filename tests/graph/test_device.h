// A device for the graph tests: plain loops on the host, since this module may not use the kernels.
#pragma once

#include <cmath>
#include <cstring>

#include "trireme/core/bf16.h"
#include "trireme/core/device.h"
#include "trireme/core/error.h"

#include "tests/support/host_event.h"

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

/// Element `i` of a floating tensor, wide and back.
inline double element(const Tensor& x, Index i) {
  switch (x.dtype) {
    case DType::f64:
      return x.as<double>()[i];
    case DType::bf16:
      return to_float(x.as<Bf16>()[i]);
    case DType::f32:
      return x.as<float>()[i];
    case DType::i32:
    case DType::i64:
    case DType::u8:
      break;
  }
  throw Error(str("no floating-point elements in ", x.dtype));
}
inline void set_element(const Tensor& x, Index i, double value) {
  switch (x.dtype) {
    case DType::f64:
      x.as<double>()[i] = value;
      return;
    case DType::bf16:
      x.as<Bf16>()[i] = to_bf16(static_cast<float>(value));
      return;
    case DType::f32:
      x.as<float>()[i] = static_cast<float>(value);
      return;
    case DType::i32:
    case DType::i64:
    case DType::u8:
      break;
  }
  throw Error(str("no floating-point elements in ", x.dtype));
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
    require(to.shape == from.shape, "copy of different tensors");
    if (to.dtype != from.dtype)
      return for_each(to.shape, to.strides, from.strides,
                      [&](Index a, Index b) { set_element(to, a, element(from, b)); });
    const auto size = static_cast<std::size_t>(size_bytes(to.dtype));
    for_each(to.shape, to.strides, from.strides, [&](Index a, Index b) {
      std::memcpy(static_cast<std::byte*>(to.data) + a * static_cast<Index>(size),
                  static_cast<std::byte*>(from.data) + b * static_cast<Index>(size), size);
    });
  }
  void add(const Tensor& to, const Tensor& from) override {
    require(to.shape == from.shape, "sum of different tensors");
    for_each(to.shape, to.strides, from.strides,
             [&](Index a, Index b) { set_element(to, a, element(to, a) + element(from, b)); });
  }
  bool wait_and_check_finite(const Tensor& x) override {
    bool finite = true;
    for_each(x.shape, x.strides, x.strides,
             [&](Index a, Index) { finite &= std::isfinite(element(x, a)); });
    return finite;
  }
  void synchronize() override {}
  ThreadPool& pool() override { return pool_; }

 private:
  ThreadPool pool_;
};

class TestDevice final : public Device {
 public:
  TestDevice() : Device(DeviceTraits{}) {}
  std::string describe() const override { return "plain loops"; }
  const Kernels& kernels() const override { throw Error("the test device has no kernels"); }
  Buffer allocate(Index bytes) override { return allocate_host(bytes); }
  Index free_bytes() const override { return Index{1} << 30; }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<TestStream>(*this); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<HostEvent>(); }
};

}  // namespace trireme::test
