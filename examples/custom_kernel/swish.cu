// An op written out: its result, its gradient, what the gradient needs, and its kernels. nvcc
// compiles this file, or, where there is none, the C++ compiler: the op then works on CPUs only. (A
// formula of single elements is shorter as pointwise(): examples/custom_op.)
#include <cmath>

#include "swish.h"

using namespace trireme;

namespace {

TRIREME_HD float gate(float x, float beta) { return 1 / (1 + std::exp(-beta * x)); }

struct Forward {
  const float* x;
  float* y;
  float beta;
  TRIREME_HD void operator()(Index i) const { y[i] = x[i] * gate(x[i], beta); }
};
struct Backward {
  const float *x, *dy;
  float* dx;
  float beta;
  TRIREME_HD void operator()(Index i) const {
    const float g = gate(x[i], beta);
    dx[i] = dy[i] * (g + beta * x[i] * g * (1 - g));
  }
};

#if defined(__CUDACC__)
constexpr bool has_kernels = true;

template <class F>
__global__ void kernel(F f, Index count) {
  const Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) f(i);
}
template <class F>
void launch(Stream& stream, Index count, const F& f) {
  constexpr Index threads = 256;
  const auto blocks = static_cast<unsigned>((count + threads - 1) / threads);
  kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(stream.native())>>>(f, count);
  const cudaError_t error = cudaGetLastError();
  require(error == cudaSuccess, "swish: ", cudaGetErrorString(error));
}
#else
constexpr bool has_kernels = false;

template <class F>
void launch(Stream&, Index, const F&) {
  throw Error("swish was built without nvcc");
}
#endif

/// f(i) for every element, where the tensors are.
template <class F>
void for_each(Exec& e, const F& f) {
  const Index count = e.input(0).count();
  if (count == 0) return;  // CUDA refuses a launch of no blocks
  if (e.stream().device().kind() == DeviceKind::cuda) return launch(e.stream(), count, f);
  parallel_for(e.stream(), count, 4096, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) f(i);
  });
}

class Swish final : public Op {
 public:
  explicit Swish(float beta) : beta_(beta) {}
  std::string name() const override { return "swish"; }
  Outputs infer(const Specs& in) const override { return {Spec(in[0].shape)}; }
  void forward(Exec& e) const override {
    for_each(e, Forward{e.input(0).as<float>(), e.output(0).as<float>(), beta_});
  }
  void backward(Exec& e) const override {
    for_each(e, Backward{e.input(0).as<float>(), e.grad_output(0).as<float>(),
                         e.grad_input(0).as<float>(), beta_});
  }

  Saved saved(const BackwardWork&) const override { return Saved::input(0); }  // never y
  bool works_on(DeviceKind kind) const override { return kind == DeviceKind::cpu || has_kernels; }
  double flops(const Specs& in) const override {
    return 5.0 * static_cast<double>(in[0].shape.count());
  }

 private:
  float beta_;
};

}  // namespace

Value swish(Value x, float beta) { return x.apply<Swish>(beta); }
