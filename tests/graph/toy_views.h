// Toy ops: views, and ops that take strided inputs or one value twice.
#pragma once

#include <cmath>

#include "trireme/graph/graph.h"

#include "tests/graph/test_device.h"

namespace trireme::test {

/// Views.
class Slice final : public Op {
 public:
  Slice(int dim, Index begin, Index end) : dim_(dim), begin_(begin), end_(end) {}
  std::string name() const override { return "slice"; }
  Outputs infer(const Specs& in) const override {
    return {Output::view(0, in[0].sliced(dim_, begin_, end_), begin_ * in[0].strides[dim_])};
  }
  void forward(Exec&) const override { throw Error("a view never runs"); }
  void backward(Exec&) const override { throw Error("a view never runs"); }

 private:
  int dim_;
  Index begin_, end_;
};

class Reshape final : public Op {
 public:
  explicit Reshape(Shape shape) : shape_(shape) {}
  std::string name() const override { return "reshape"; }
  Outputs infer(const Specs& in) const override {
    return {Output::view(0, in[0].reshaped(shape_))};
  }
  void forward(Exec&) const override { throw Error("a view never runs"); }
  void backward(Exec&) const override { throw Error("a view never runs"); }

 private:
  Shape shape_;
};

/// A packed copy of anything.
class Contiguous final : public Op {
 public:
  std::string name() const override { return "contiguous"; }
  Outputs infer(const Specs& in) const override { return {Spec(in[0].shape, in[0].dtype)}; }
  bool strided(int) const override { return true; }
  void forward(Exec& e) const override { e.stream().copy(e.output(0), e.input(0)); }
  void backward(Exec& e) const override { e.stream().copy(e.grad_input(0), e.grad_output(0)); }
};

/// y = a b + c, for strided inputs that may be parts of one value (queries, keys, values).
class Mix final : public Op {
 public:
  std::string name() const override { return "mix"; }
  Outputs infer(const Specs& in) const override {
    require(in.size() == 3 && in[0].shape == in[1].shape && in[0].shape == in[2].shape,
            "three inputs of one shape are needed");
    return {Spec(in[0].shape)};
  }
  Saved saved(const BackwardWork&) const override { return Saved::input(0) | Saved::input(1); }
  bool strided(int) const override { return true; }
  void forward(Exec& e) const override {
    const Tensor &a = e.input(0), &b = e.input(1), &c = e.input(2), &y = e.output(0);
    for_each(y.shape, y.strides, a.strides,
             [&](Index o, Index i) { y.as<float>()[o] = a.as<float>()[i]; });
    for_each(y.shape, y.strides, b.strides,
             [&](Index o, Index i) { y.as<float>()[o] *= b.as<float>()[i]; });
    e.stream().add(y, c);
  }
  void backward(Exec& e) const override {
    const Tensor& dy = e.grad_output(0);
    const auto product = [&](int to, int other) {
      if (!e.wants(to)) return;
      const Tensor& d = e.grad_input(to);
      e.stream().copy(d, dy);
      if (other < 0) return;
      const Tensor& x = e.input(other);
      for_each(d.shape, d.strides, x.strides,
               [&](Index o, Index i) { d.as<float>()[o] *= x.as<float>()[i]; });
    };
    product(0, 1);
    product(1, 0);
    product(2, -1);
  }
};

/// y = a b^2 / 2, strided, which can add to both gradients, but not where they are the same memory:
/// it reads both before it writes either.
class Weighted final : public Op {
 public:
  std::string name() const override { return "weighted"; }
  Outputs infer(const Specs& in) const override { return {Spec(in[0].shape)}; }
  Saved saved(const BackwardWork&) const override { return Saved::input(0) | Saved::input(1); }
  bool strided(int) const override { return true; }
  bool accumulates(int) const override { return true; }
  void forward(Exec& e) const override {
    const Tensor &a = e.input(0), &b = e.input(1), &y = e.output(0);
    Index o = 0;
    for_each(y.shape, a.strides, b.strides, [&](Index i, Index k) {
      y.as<float>()[o++] = a.as<float>()[i] * b.as<float>()[k] * b.as<float>()[k] / 2;
    });
  }
  void backward(Exec& e) const override {
    const Tensor &a = e.input(0), &b = e.input(1), &dy = e.grad_output(0);
    Index o = 0;
    for_each(dy.shape, a.strides, b.strides, [&](Index i, Index k) {
      const float d = dy.as<float>()[o++], x = a.as<float>()[i], z = b.as<float>()[k];
      float* da = e.wants(0) ? e.grad_input(0).as<float>() + i : nullptr;
      float* db = e.wants(1) ? e.grad_input(1).as<float>() + k : nullptr;
      const float old_a = da && e.accumulate(0) ? *da : 0, old_b = db && e.accumulate(1) ? *db : 0;
      if (da) *da = old_a + d * z * z / 2;
      if (db) *db = old_b + d * x * z;
    });
  }
};

}  // namespace trireme::test
