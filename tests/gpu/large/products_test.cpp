// Matrix products with one operand of more than 2^31 elements: the first, the result, and the one
// that the sum goes along.
#include "trireme/kernels/gemm.h"

#include "tests/gpu/large/large.h"

namespace trireme::test {
namespace {

void run(RowBench& b, Gemm p) {
  p.dtype = DType::bf16;
  p.workspace = b.scratch(gemm_workspace_bytes(b.device().traits(), p));
  b.kernels().gemm.run(b.stream(), p);
}

/// What fp32 sums of 3072 products may differ by when they are added in another order, relative to
/// the largest of such sums.
constexpr double tolerance = 1e-5;

struct Shape {
  Index rows, inputs, outputs;
};

void forward_agrees(const Shape& s) {
  expect_rows_agree({s.rows,
                     {{"x", s.inputs}, {"y", s.outputs}},
                     [s](RowBench& b) {
                       const void* weight =
                           b.put(random_floats(s.outputs * s.inputs, "weight"), DType::bf16);
                       run(b, {.m = b.rows(),
                               .n = s.outputs,
                               .k = s.inputs,
                               .a = b.array(0),
                               .lda = s.inputs,
                               .b = weight,
                               .ldb = s.inputs,
                               .transpose_b = Transpose::yes,
                               .c = b.array(1),
                               .ldc = s.outputs,
                               .result = DType::bf16});
                     },
                     tolerance});
}

TEST_P(OnLargeArrays, ProductOfManyRows) {
  forward_agrees(sized(Shape{700'000, 3072, 64}, Shape{400, 192, 16}));
}

TEST_P(OnLargeArrays, ProductWithManyResults) {
  forward_agrees(sized(Shape{700'000, 64, 3072}, Shape{400, 16, 192}));
}

TEST_P(OnLargeArrays, ProductThatAddsManyRows) {
  const Shape s = sized(Shape{700'000, 3072, 64}, Shape{400, 192, 16});
  expect_rows_agree({s.rows,
                     {{"x", s.inputs}, {"dy", s.outputs, DType::bf16, -1, 1, Elsewhere::zeros}},
                     [s](RowBench& b) {
                       float* dweight = b.put(random_floats(s.outputs * s.inputs, "dweight"));
                       run(b, {.m = s.outputs,
                               .n = s.inputs,
                               .k = b.rows(),
                               .a = b.array(1),
                               .lda = s.outputs,
                               .transpose_a = Transpose::yes,
                               .b = b.array(0),
                               .ldb = s.inputs,
                               .c = dweight,
                               .ldc = s.inputs,
                               .write = Write::add});
                     },
                     tolerance});
}

}  // namespace
}  // namespace trireme::test
