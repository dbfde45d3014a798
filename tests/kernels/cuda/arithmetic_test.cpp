// Elementwise formulas, products and sums on a GPU agree with those on the CPU.
#include "trireme/kernels/arithmetic.h"

#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {
namespace {

// Less than a pack, odd, several blocks; and arrays that are not aligned to 16 bytes.
const std::vector<Formula> formulas = {Formula::scale, Formula::sigmoid, Formula::tanh,
                                       Formula::relu, Formula::exp};
constexpr float factor = -1.5f;

/// For all counts, in both types, aligned and not.
void expect_agreement(const std::function<void(Bench&, Index, Index, DType)>& run) {
  for (const DType dtype : storage_types)
    expect_agree(
        [&](Bench& b) {
          for (const Index count : counts)
            for (const Index shift : shifts) run(b, count, shift, dtype);
        },
        1e-6);
}

TEST(CudaArithmetic, FormulasAgree) {
  for (const Formula formula : formulas)
    expect_agreement([&](Bench& b, Index count, Index shift, DType dtype) {
      const auto forward = b.kernels().arithmetic.formula_forward;
      void* x = b.put(random_floats(count, "x", -6, 6), dtype, shift);
      void* y = b.put(random_floats(count, "y"), dtype);
      forward(b.stream(), {formula, count, x, y, factor, dtype});
      forward(b.stream(), {formula, count, x, x, factor, dtype});  // in place
    });
}

TEST(CudaArithmetic, SlopesAgree) {
  for (const Formula formula : formulas)
    for (const Write write : {Write::assign, Write::add})
      expect_agreement([&](Bench& b, Index count, Index shift, DType dtype) {
        const auto backward = b.kernels().arithmetic.formula_backward;
        const void* saved = b.put(random_floats(count, "x", -6, 6), dtype, shift);
        if (slope_of(formula) == SlopeOf::nothing) saved = nullptr;
        void* dy = b.put(random_floats(count, "dy"), dtype);
        void* dx = b.put(random_floats(count, "dx"), dtype, shift);
        backward(b.stream(), {formula, count, saved, dy, dx, factor, write, dtype});
        backward(b.stream(), {formula, count, saved, dy, dy, factor, write, dtype});
      });
}

TEST(CudaArithmetic, ProductsAndDifferencesAgree) {
  expect_agreement([](Bench& b, Index count, Index shift, DType dtype) {
    const ArithmeticKernels& k = b.kernels().arithmetic;
    void* x = b.put(random_floats(count, "a"), dtype, shift);
    void* y = b.put(random_floats(count, "b"), dtype);
    void* product = b.put(random_floats(count, "product"), dtype, shift);
    k.pair_forward(b.stream(), {PairFormula::product, count, x, y, product, dtype});
    k.pair_forward(b.stream(), {PairFormula::difference, count, x, y, x, dtype});
    k.pair_forward(b.stream(), {PairFormula::product, count, x, y, y, dtype});
  });
}

TEST(CudaArithmetic, GradientsOfProductsAgree) {
  for (const Write write : {Write::assign, Write::add})
    expect_agreement([&](Bench& b, Index count, Index shift, DType dtype) {
      const auto backward = b.kernels().arithmetic.product_backward;
      const void* x = b.put(random_floats(count, "a"), dtype, shift);
      const void* y = b.put(random_floats(count, "b"), dtype);
      void* dy = b.put(random_floats(count, "dy"), dtype);
      void* dx = b.put(random_floats(count, "da"), dtype, shift);
      void* other = b.put(random_floats(count, "db"), dtype);
      backward(b.stream(), {count, x, y, dy, dx, other, write, Write::add, dtype});
      backward(b.stream(), {count, x, x, dy, dx, dx, write, Write::add, dtype});
      backward(b.stream(), {count, x, y, dy, nullptr, other, write, write, dtype});
      backward(b.stream(), {count, x, y, dy, dy, nullptr, Write::assign, write, dtype});
    });
}

TEST(CudaArithmetic, SumsAgree) {
  for (const Write write : {Write::assign, Write::add})
    expect_agreement([&](Bench& b, Index count, Index shift, DType dtype) {
      const ArithmeticKernels& k = b.kernels().arithmetic;
      const void* x = b.put(random_floats(count, "x"), dtype, shift);
      void* dx = b.put(random_floats(count, "dx"), dtype, shift);
      double* sum = b.put(std::vector<double>{7});
      k.sum_forward(b.stream(), {count, x, sum, 0.5, dtype});
      k.sum_backward(b.stream(), {count, sum, dx, 0.25, write, dtype});
    });
}

}  // namespace
}  // namespace trireme::test
