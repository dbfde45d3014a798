// Activations on a GPU agree with those on the CPU.
#include "trireme/kernels/activation.h"

#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {
namespace {

// Less than a pack, odd, several blocks; and arrays that are not aligned to 16 bytes.
const std::vector<Activation> kinds = {Activation::gelu_tanh, Activation::gelu_erf,
                                       Activation::silu};

/// CUDA's erfcf is within 4 units of the last place (CUDA C++ Programming Guide), what the others
/// are made of within 2.
double tolerance_of(Activation kind) { return kind == Activation::gelu_erf ? 6e-7 : 3e-7; }

TEST(CudaActivation, ValuesAgree) {
  for (const DType dtype : storage_types)
    for (const Activation kind : kinds)
      expect_agree(
          [&](Bench& b) {
            for (const Index count : counts)
              for (const Index shift : shifts) {
                void* x = b.put(random_floats(count, "x", -6, 6), dtype, shift);
                void* y = b.put(random_floats(count, "y"), dtype);
                b.kernels().activation.forward(b.stream(), {kind, count, x, y, dtype});
                b.kernels().activation.forward(b.stream(), {kind, count, x, x, dtype});  // in place
              }
          },
          tolerance_of(kind));
}

TEST(CudaActivation, SlopesAgree) {
  for (const DType dtype : storage_types)
    for (const Activation kind : kinds)
      for (const Write write : {Write::assign, Write::add})
        expect_agree(
            [&](Bench& b) {
              const auto run = b.kernels().activation.backward;
              for (const Index count : counts)
                for (const Index shift : shifts) {
                  const void* x = b.put(random_floats(count, "x", -6, 6), dtype);
                  void* dy = b.put(random_floats(count, "dy"), dtype, shift);
                  void* dx = b.put(random_floats(count, "dx"), dtype);
                  run(b.stream(), {kind, count, x, dy, dx, write, dtype});
                  run(b.stream(), {kind, count, x, dy, dy, write, dtype});
                }
            },
            1e-6);
}

TEST(CudaActivation, FarFromZeroIsZeroOrTheArgument) {
  const Floats far = {-1e12f, -1e10f, -200, -89, -88, -20, 20, 88, 89, 200, 1e10f};
  const auto count = static_cast<Index>(far.size());
  for (const Activation kind : kinds)
    expect_agree(
        [&](Bench& b) {
          const float* x = b.put(far);
          const float* dy = b.put(Floats(far.size(), 1));
          float* y = b.put(Floats(far.size()));
          float* dx = b.put(Floats(far.size()));
          b.kernels().activation.forward(b.stream(), {kind, count - 1, x + 1, y});
          b.kernels().activation.backward(b.stream(), {kind, count, x, dy, dx});
        },
        1e-7);
}

TEST(CudaActivation, SwigluAndItsGradientAgree) {
  for (const DType dtype : storage_types)
    for (const Write write : {Write::assign, Write::add})
      expect_agree(
          [&](Bench& b) {
            for (const auto& [n, c] :
                 {std::pair<Index, Index>{0, 8}, {1, 1}, {5, 3}, {7, 4}, {33, 40}, {3, 1027}})
              for (const Index shift : shifts) {
                void* gate_up = b.put(random_floats(2 * n * c, "gate_up", -4, 4), dtype, shift);
                void* y = b.put(random_floats(n * c, "y"), dtype);
                const void* dy = b.put(random_floats(n * c, "dy"), dtype);
                void* dgate_up = b.put(random_floats(2 * n * c, "dgate_up"), dtype);
                const ActivationKernels& k = b.kernels().activation;
                k.swiglu_forward(b.stream(), {n, c, gate_up, y, dtype});
                k.swiglu_backward(b.stream(), {n, c, gate_up, dy, dgate_up, write, dtype});
                k.swiglu_backward(b.stream(), {n, c, gate_up, dy, gate_up, write, dtype});
              }
          },
          1e-6);
}

}  // namespace
}  // namespace trireme::test
