// Matrix products on a GPU, plain and fused, agree with those on the CPU.
#include "trireme/kernels/gemm.h"

#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {
namespace {

struct GemmCase {
  Index m, n, k;
};

struct Types {
  DType operands, result;
};
constexpr Types f32{DType::f32, DType::f32}, bf16{DType::bf16, DType::bf16},
    bf16_to_f32{DType::bf16, DType::f32};

struct Variant {
  Transpose ta = Transpose::no, tb = Transpose::no;
  Write write = Write::assign;
  bool with_bias = false;
  Types types = f32;
  Index pad = 3, shift = 0;
};

void run_gemm(Bench& b, Gemm p) {
  Device& device = b.stream().device();
  const Buffer workspace = device.allocate(gemm_workspace_bytes(device.traits(), p));
  p.workspace = workspace.data();
  b.kernels().gemm.run(b.stream(), p);
  b.stream().synchronize();
}

// Rows are longer than what is multiplied; what lies between them must stay.
void products_agree(const GemmCase& c, const Variant& v) {
  SCOPED_TRACE(str("m ", c.m, " n ", c.n, " k ", c.k, " transposed ", v.ta == Transpose::yes,
                   v.tb == Transpose::yes, " add ", v.write == Write::add, " bias ", v.with_bias,
                   ' ', v.types.operands, " to ", v.types.result));
  const bool a_turned = v.ta == Transpose::yes, b_turned = v.tb == Transpose::yes;
  const Index lda = (a_turned ? c.m : c.k) + v.pad, ldb = (b_turned ? c.k : c.n) + v.pad,
              ldc = c.n + v.pad;
  const auto [operands, result] = v.types;
  expect_agree(
      [&, operands = operands, result = result](Bench& b) {
        const void* x =
            b.put(random_floats((a_turned ? c.k : c.m) * lda + 1, "a"), operands, v.shift);
        const void* y = b.put(random_floats((b_turned ? c.n : c.k) * ldb + 1, "b"), operands);
        void* z = b.put(random_floats(c.m * ldc + 1, "c"), result, v.shift);
        const void* bias =
            v.with_bias ? b.put(random_floats(c.n, "bias"), result, v.shift) : nullptr;
        Gemm p{c.m, c.n, c.k, x, lda, v.ta, y, ldb, v.tb, z, ldc, v.write, bias};
        p.dtype = operands;
        p.result = result;
        run_gemm(b, p);
      },
      1e-6);
}

TEST(CudaGemm, EveryTransposeAgrees) {
  for (const Types& types : {f32, bf16, bf16_to_f32})
    for (const Transpose ta : {Transpose::no, Transpose::yes})
      for (const Transpose tb : {Transpose::no, Transpose::yes})
        for (const Write write : {Write::assign, Write::add})
          for (const GemmCase& c : {GemmCase{1, 1, 1}, {5, 3, 7}, {17, 33, 20}})
            products_agree(c, {ta, tb, write, false, types});
}

TEST(CudaGemm, OddRowsOfBf16AreMultipliedWherever16BytesDoNotFit) {
  for (const Types& types : {bf16, bf16_to_f32})
    for (const Index shift : {0, 1, 2, 4, 8})
      for (const Index pad : {0, 1, 2})
        products_agree({9, 16, 8}, {.types = types, .pad = pad, .shift = shift});
}

TEST(CudaGemm, TheBiasIsAddedToEveryRow) {
  for (const Types& types : {f32, bf16, bf16_to_f32})
    for (const Transpose tb : {Transpose::no, Transpose::yes})
      products_agree({9, 21, 13}, {.tb = tb, .with_bias = true, .types = types});
}

TEST(CudaGemm, WithoutAnInnerDimensionAssignsZerosOrTheBias) {
  for (const Types& types : {f32, bf16, bf16_to_f32}) {
    products_agree({5, 7, 0}, {.types = types});
    products_agree({5, 7, 0}, {.with_bias = true, .types = types});
    products_agree({5, 7, 0}, {.write = Write::add, .types = types});
    products_agree({0, 7, 3}, {.types = types});
    products_agree({7, 0, 3}, {.types = types});
  }
}

// What follows a product. m is not a multiple of anything; n is, where cuBLASLt asks for it. Fused,
// GELU is taken of the sum before it is rounded to bf16, or after: that shows in the last places.
void epilogues_agree(const GemmCase& c, Epilogue epilogue, bool with_bias, Types types,
                     Index shift) {
  SCOPED_TRACE(str("m ", c.m, " n ", c.n, " k ", c.k, " epilogue ", static_cast<int>(epilogue),
                   " bias ", with_bias, ' ', types.operands, " to ", types.result, " shift ",
                   shift));
  expect_agree(
      [&](Bench& b) {
        Gemm p{c.m,
               c.n,
               c.k,
               b.put(random_floats(c.m * c.k, "a"), types.operands, shift),
               c.k,
               Transpose::no,
               b.put(random_floats(c.k * c.n, "b"), types.operands, shift),
               c.k,
               Transpose::yes,
               b.put(Floats(static_cast<std::size_t>(c.m * c.n), 5), types.result, shift),
               c.n};
        if (with_bias) p.bias = b.put(random_floats(c.n, "bias"), types.result, shift);
        p.epilogue = epilogue;
        p.gelu_input = b.put(random_floats(c.m * c.n, "x", -3, 3), types.result, shift);
        p.dtype = types.operands;
        p.result = types.result;
        run_gemm(b, p);
      },
      2e-6, {.units = 4, .share = 1});
}

TEST(CudaGemm, GeluAndItsGradientAgreeWhereTheyAreFusedAndWhereNot) {
  for (const Types& types : {f32, bf16, bf16_to_f32})
    for (const GemmCase& c : {GemmCase{5, 16, 7}, {3, 7, 9}, {17, 24, 0}})
      for (const Index shift : {0, 1}) {
        epilogues_agree(c, Epilogue::gelu, true, types, shift);
        epilogues_agree(c, Epilogue::gelu, false, types, shift);
        epilogues_agree(c, Epilogue::gelu_gradient, false, types, shift);
      }
}

void bias_gradients_agree(const GemmCase& c, DType operands, Write write, Write write_gradient) {
  SCOPED_TRACE(str("m ", c.m, " n ", c.n, " k ", c.k, " of ", operands));
  expect_agree(
      [&](Bench& b) {
        Gemm p{c.m,
               c.n,
               c.k,
               b.put(random_floats(c.k * c.m, "a"), operands),
               c.m,
               Transpose::yes,
               b.put(random_floats(c.k * c.n, "b"), operands),
               c.n,
               Transpose::no,
               b.put(random_floats(c.m * c.n, "c")),
               c.n,
               write};
        p.bias_gradient = b.put(random_floats(c.m, "bias gradient"));
        p.write_bias_gradient = write_gradient;
        p.dtype = operands;
        run_gemm(b, p);
      },
      2e-6);
}

TEST(CudaGemm, TheBiasGradientComesWithThatOfTheWeight) {
  for (const DType operands : storage_types)
    for (const GemmCase& c : {GemmCase{5, 3, 7}, {16, 24, 33}, {9, 5, 0}})
      for (const Write write : {Write::assign, Write::add})
        for (const Write gradient : {Write::assign, Write::add})
          bias_gradients_agree(c, operands, write, gradient);
}

// An algorithm that was chosen for aligned operands must not be used for others of the same shape,
// nor a shape's for another.
TEST(CudaGemm, PlansAreNotMixedUp) {
  expect_agree(
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
  Gemm p{4, 4, 4, x, 4, Transpose::yes, x, 4, Transpose::no, x, 4};
  p.bias_gradient = x;
  EXPECT_THROW(k.run(b.stream(), p), Error);  // without workspace to add from
  p.write_bias_gradient = Write::assign;
  EXPECT_NO_THROW(k.run(b.stream(), p));
  p.transpose_a = Transpose::no;
  EXPECT_THROW(k.run(b.stream(), p), Error);
  p.bias_gradient = nullptr;
  p.epilogue = Epilogue::gelu;
  EXPECT_THROW(k.run(b.stream(), p), Error);  // without gelu_input
  p.gelu_input = x;
  p.ldc = 5;
  EXPECT_THROW(k.run(b.stream(), p), Error);
}

}  // namespace
}  // namespace trireme::test
