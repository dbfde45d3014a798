#include "tests/kernels/cuda/twins.h"

namespace trireme::test {
namespace {

struct Case {
  Index m, n, k;
};

// Rows are longer than what is multiplied; what lies between them must stay.
void products_agree(const Case& c, Transpose ta, Transpose tb, Write write, bool with_bias,
                    Index pad = 3, Index shift = 0) {
  SCOPED_TRACE(str("m ", c.m, " n ", c.n, " k ", c.k, " transposed ", ta == Transpose::yes,
                   tb == Transpose::yes, " add ", write == Write::add, " bias ", with_bias));
  const bool a_turned = ta == Transpose::yes, b_turned = tb == Transpose::yes;
  const Index lda = (a_turned ? c.m : c.k) + pad, ldb = (b_turned ? c.k : c.n) + pad,
              ldc = c.n + pad;
  expect_twins(
      [&](Bench& b) {
        const float* x = b.put(random_floats((a_turned ? c.k : c.m) * lda + 1, "a"), shift);
        const float* y = b.put(random_floats((b_turned ? c.n : c.k) * ldb + 1, "b"));
        float* z = b.put(random_floats(c.m * ldc + 1, "c"), shift);
        const float* bias = with_bias ? b.put(random_floats(c.n, "bias"), shift) : nullptr;
        b.kernels().gemm.run(b.stream(),
                             {c.m, c.n, c.k, x, lda, ta, y, ldb, tb, z, ldc, write, bias});
      },
      1e-6);
}

TEST(CudaGemm, EveryTransposeAgrees) {
  for (const Transpose ta : {Transpose::no, Transpose::yes})
    for (const Transpose tb : {Transpose::no, Transpose::yes})
      for (const Write write : {Write::assign, Write::add})
        for (const Case& c : {Case{1, 1, 1}, {5, 3, 7}, {17, 33, 20}})
          products_agree(c, ta, tb, write, false);
}

TEST(CudaGemm, TheBiasIsAddedToEveryRow) {
  for (const Transpose tb : {Transpose::no, Transpose::yes})
    products_agree({9, 21, 13}, Transpose::no, tb, Write::assign, true);
}

TEST(CudaGemm, WithoutAnInnerDimensionAssignsZerosOrTheBias) {
  products_agree({5, 7, 0}, Transpose::no, Transpose::no, Write::assign, false);
  products_agree({5, 7, 0}, Transpose::no, Transpose::no, Write::assign, true);
  products_agree({5, 7, 0}, Transpose::no, Transpose::no, Write::add, false);
  products_agree({0, 7, 3}, Transpose::no, Transpose::no, Write::assign, false);
  products_agree({7, 0, 3}, Transpose::no, Transpose::no, Write::assign, false);
}

// An algorithm that was chosen for aligned operands must not be used for others of the same shape, nor a shape's for another.
TEST(CudaGemm, PlansAreNotMixedUp) {
  expect_twins(
      [](Bench& b) {
        float* x = b.put(random_floats(200, "x"));
        const auto run = [&](Index n, Index shift, const float* bias) {
          float* z = b.put(Floats(100), shift);
          b.kernels().gemm.run(b.stream(), {4, n, 6, x + shift, 8, Transpose::no, x, 9,
                                            Transpose::no, z, n, Write::assign, bias});
        };
        for (const Index n : {9, 8, 9})
          for (const Index shift : {0, 1, 2, 0}) {
            run(n, shift, nullptr);
            run(n, shift, x + shift);
            run(n, shift, x + 50);
          }
      },
      1e-6);
}

TEST(CudaGemm, RejectsWhatDoesNotFit) {
  Bench b(open_gpu());
  float* x = b.put(Floats(100));
  const GemmKernels& k = b.kernels().gemm;
  EXPECT_THROW(k.run(b.stream(), {4, 4, 5, x, 4, Transpose::no, x, 4, Transpose::no, x, 4}), Error);
  EXPECT_THROW(
      k.run(b.stream(), {4, 4, 4, x, 4, Transpose::no, x, 4, Transpose::no, x, 4, Write::add, x}),
      Error);
}

TEST(CudaGemm, AFailureSaysWhatCuBlasSays) {
  Bench b(open_gpu());
  float* x = b.put(Floats(100));
  auto* odd = reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(x) + 2);
  try {
    b.kernels().gemm.run(b.stream(), {2, 2, 2, odd, 2, Transpose::no, x, 2, Transpose::no, x, 2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cublasLtMatmul"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("CUBLAS_STATUS_"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme::test
