// Kernels that work row by row, or element by element, on more than 2^31 elements in bf16.
#include "trireme/kernels/activation.h"
#include "trireme/kernels/cross_entropy.h"
#include "trireme/kernels/elementwise.h"
#include "trireme/kernels/embedding.h"
#include "trireme/kernels/norm.h"
#include "trireme/kernels/rotary.h"

#include "tests/gpu/large/large.h"

namespace trireme::test {
namespace {

std::string name_of(const testing::TestParamInfo<Sizes>& test) { return name(test.param); }
INSTANTIATE_TEST_SUITE_P(Sizes, OnLargeArrays, testing::Values(Sizes::whole, Sizes::small),
                         name_of);

constexpr Bf16Tolerance exactly = {0, 0};

/// Rows and their elements: 2^31 elements, and 3 million more; or more than 16 bits count.
struct Extent {
  Index rows, width;
};
constexpr Extent whole = {2'800'000, 768}, small = {1'500, 48};

TEST_P(OnLargeArrays, NormForward) {
  const auto [rows, width] = sized(whole, small);
  expect_rows_agree(
      {rows,
       {{"x", width, DType::bf16, -1, 3},
        {"delta", width},
        {"y", width},
        {"mean", 1, DType::f32},
        {"rstd", 1, DType::f32}},
       [width = width](RowBench& b) {
         const void* weight = b.put(random_floats(width, "weight", 0.5, 1.5), DType::bf16);
         const void* bias = b.put(random_floats(width, "bias"), DType::bf16);
         b.kernels().norm.forward(b.stream(), {NormKind::layer, b.rows(), width, 1e-5f, b.array(0),
                                               b.array(1), weight, bias, b.array(0), b.array(2),
                                               b.array<float>(3), b.array<float>(4), DType::bf16});
       },
       2e-6});
}

TEST_P(OnLargeArrays, NormBackward) {
  const auto [rows, width] = sized(whole, small);
  expect_rows_agree({rows,
                     {{"s", width, DType::bf16, -1, 3},
                      {"dy", width, DType::bf16, -1, 1, Elsewhere::zeros},
                      {"dx", width},
                      {"mean", 1, DType::f32, 0.8f, 1.2f},
                      {"rstd", 1, DType::f32, 0.5f, 1}},
                     [width = width](RowBench& b) {
                       NormBackward p{};
                       p.kind = NormKind::layer;
                       p.rows = b.rows();
                       p.channels = width;
                       p.s = b.array(0);
                       p.weight = b.put(random_floats(width, "weight", 0.5, 1.5), DType::bf16);
                       p.mean = b.array<float>(3);
                       p.rstd = b.array<float>(4);
                       p.dy = b.array(1);
                       p.dsum = p.dx = b.array(2);
                       p.dweight = b.put(random_floats(width, "dweight"));
                       p.dbias = b.put(random_floats(width, "dbias"));
                       p.workspace = b.scratch(
                           norm_backward_workspace_bytes(b.device().traits(), b.rows(), width));
                       p.dtype = DType::bf16;
                       b.kernels().norm.backward(b.stream(), p);
                     },
                     3e-6});
}

/// A row: a token.
TEST_P(OnLargeArrays, Embedding) {
  constexpr Index vocabulary = 1000;
  const auto [rows, width] = sized(whole, small);
  expect_rows_agree(
      {rows,
       {{"tokens", 1, DType::i32, -10, 1010}, {"y", width}},
       [width = width](RowBench& b) {
         const void* table = b.put(random_floats(vocabulary * width, "table"), DType::bf16);
         b.kernels().embedding.forward(b.stream(), {b.rows(), width, b.array<std::int32_t>(0),
                                                    table, 0, vocabulary, b.array(1), DType::bf16});
       },
       0,
       exactly});
}

TEST_P(OnLargeArrays, EmbeddingGradient) {
  constexpr Index vocabulary = 1000;
  const auto [rows, width] = sized(whole, small);
  expect_rows_agree(
      {rows,
       {{"tokens", 1, DType::i32, -10, 1010}, {"dy", width, DType::bf16, -1, 1, Elsewhere::zeros}},
       [width = width](RowBench& b) {
         float* dtable = b.put(random_floats(vocabulary * width, "dtable"));
         const EmbeddingKernels& k = b.kernels().embedding;
         void* workspace =
             b.scratch(embedding_backward_workspace_bytes(b.device().traits(), b.rows()));
         k.backward(b.stream(), {b.rows(), width, b.array<std::int32_t>(0), b.array(1), dtable, 0,
                                 vocabulary, workspace, DType::bf16});
       },
       0});
}

/// A row: a sequence.
TEST_P(OnLargeArrays, Positions) {
  constexpr Index sequence = 7;
  const auto [rows, width] = sized(Extent{400'000, 768}, Extent{250, 48});
  expect_rows_agree(
      {rows,
       {{"x", sequence * width, DType::bf16, -1, 1, Elsewhere::zeros}, {"y", sequence * width}},
       [width = width](RowBench& b) {
         const Index tokens = b.rows() * sequence;
         const void* table = b.put(random_floats(sequence * width, "table"), DType::bf16);
         float* dtable = b.put(random_floats(sequence * width, "dtable"));
         const EmbeddingKernels& k = b.kernels().embedding;
         k.position_forward(
             b.stream(), {tokens, width, sequence, 0, b.array(0), table, b.array(1), DType::bf16});
         k.position_backward(b.stream(),
                             {tokens, width, sequence, 0, b.array(0), dtable, DType::bf16});
       },
       0,
       exactly});
}

/// A row: a sequence of heads, with columns that stay.
TEST_P(OnLargeArrays, Rotary) {
  constexpr Index sequence = 7, heads = 5;
  const auto [rows, head] = sized(Extent{700'000, 64}, Extent{250, 8});
  const Index stride = 7 * head;
  expect_rows_agree({rows,
                     {{"x", sequence * stride}},
                     [=, head = head](RowBench& b) {
                       const float* table = b.put(random_floats(sequence * head, "table"));
                       b.kernels().rotary.run(
                           b.stream(),
                           {trireme::Rotary::Direction::forward, b.rows() * sequence, sequence,
                            heads, head, stride, b.array(0), b.array(0), table, DType::bf16});
                     },
                     2e-7});
}

TEST_P(OnLargeArrays, Sums) {
  const auto [rows, width] = sized(whole, small);
  expect_rows_agree({rows,
                     {{"a", width}, {"b", width}},
                     [width = width](RowBench& b) {
                       b.kernels().elementwise.add(
                           b.stream(),
                           {b.rows() * width, b.array(0), b.array(1), b.array(1), DType::bf16});
                     },
                     0,
                     exactly});
}

TEST_P(OnLargeArrays, BiasAndItsGradient) {
  const auto [rows, width] = sized(whole, small);
  expect_rows_agree(
      {rows,
       {{"x", width, DType::bf16, -1, 1, Elsewhere::zeros}, {"y", width}},
       [width = width](RowBench& b) {
         const void* bias = b.put(random_floats(width, "bias"), DType::bf16);
         float* dbias = b.put(random_floats(width, "dbias"));
         const ElementwiseKernels& k = b.kernels().elementwise;
         k.bias_add(b.stream(), {b.rows(), width, b.array(0), bias, b.array(1), DType::bf16});
         k.bias_backward(b.stream(), {b.rows(), width, b.array(0), dbias, DType::bf16});
       },
       1e-6,
       exactly});
}

TEST_P(OnLargeArrays, Dropout) {
  const auto [rows, width] = sized(whole, small);
  expect_rows_agree({rows,
                     {{"x", width}, {"y", width}},
                     [width = width](RowBench& b) {
                       const StepRandom random{random_key(5, "d"), put_scalars(b, {.step = 3})};
                       for (const RowPiece& piece : b.pieces())
                         b.kernels().elementwise.dropout(
                             b.stream(),
                             {piece.count * width, piece.global * width, 0.3f, random,
                              b.array<Bf16>(0) + piece.local * width,
                              b.array<Bf16>(1) + piece.local * width, Write::assign, DType::bf16});
                     },
                     0,
                     exactly});
}

TEST_P(OnLargeArrays, SquaredErrorAndItsGradient) {
  const auto [rows, width] = sized(whole, small);
  expect_rows_agree(
      {rows,
       {{"x", width, DType::bf16, -1, 1, Elsewhere::zeros},
        {"target", width, DType::bf16, -1, 1, Elsewhere::zeros},
        {"dx", width}},
       [width = width](RowBench& b) {
         const Index count = b.rows() * width;
         double* loss = b.put(std::vector<double>{7});
         const double* scale = b.put(std::vector<double>{0.25});
         const ElementwiseKernels& k = b.kernels().elementwise;
         k.squared_error_forward(b.stream(), {count, b.array(0), b.array(1), loss, DType::bf16});
         k.squared_error_backward(b.stream(), {count, b.array(0), b.array(1), scale, b.array(2),
                                               Write::add, DType::bf16});
       },
       1e-11});
}

/// The second half of wider rows is converted, and converted back.
TEST_P(OnLargeArrays, StridedCopies) {
  const auto [rows, width] = sized(Extent{2'800'000, 384}, Extent{3'000, 24});
  expect_rows_agree({rows,
                     {{"wide", 2 * width}, {"packed", width, DType::f32}},
                     [width = width](RowBench& b) {
                       Tensor wide(b.array<Bf16>(0) + width, {b.rows(), width}, DType::bf16);
                       wide.strides = {2 * width, 1};
                       const Tensor packed(b.array(1), {b.rows(), width}, DType::f32);
                       b.stream().copy(packed, wide);
                       b.stream().add(wide, packed);
                     },
                     0,
                     exactly});
}

TEST_P(OnLargeArrays, GeluAndItsGradient) {
  const auto [rows, width] = sized(whole, small);
  expect_rows_agree(
      {rows,
       {{"x", width, DType::bf16, -6, 6}, {"y", width}, {"dy", width}},
       [width = width](RowBench& b) {
         const Index count = b.rows() * width;
         const ActivationKernels& k = b.kernels().activation;
         k.forward(b.stream(), {Activation::gelu_tanh, count, b.array(0), b.array(1), DType::bf16});
         k.backward(b.stream(), {Activation::gelu_tanh, count, b.array(0), b.array(2), b.array(2),
                                 Write::assign, DType::bf16});
       },
       1e-6});
}

TEST_P(OnLargeArrays, SwigluAndItsGradient) {
  const auto [rows, width] = sized(Extent{2'800'000, 384}, Extent{3'000, 24});
  expect_rows_agree(
      {rows,
       {{"gate_up", 2 * width, DType::bf16, -4, 4}, {"y", width}, {"dy", width}},
       [width = width](RowBench& b) {
         const ActivationKernels& k = b.kernels().activation;
         k.swiglu_forward(b.stream(), {b.rows(), width, b.array(0), b.array(1), DType::bf16});
         k.swiglu_backward(b.stream(), {b.rows(), width, b.array(0), b.array(2), b.array(0),
                                        Write::assign, DType::bf16});
       },
       1e-6});
}

/// 32,768 x 50,264 logits whole: what a step of GPT-2 has at once. A sum of 50,257 exponentials,
/// each off by 2 units of the last place at most, is off by 4e-7 of itself on the emulation.
TEST_P(OnLargeArrays, CrossEntropy) {
  struct Logits {
    Index rows, columns, padded, stride;
  };
  const auto [rows, columns, padded, stride] =
      sized(Logits{32'768, 50'257, 50'264, 50'304}, Logits{400, 257, 264, 320});
  expect_rows_agree(
      {rows,
       {{"logits", stride, DType::bf16, -9, 9},
        {"targets", 1, DType::i32, -1, static_cast<float>(columns)},
        {"partial", 3, DType::f32},
        {"logsumexp", 1, DType::f32}},
       [=, columns = columns, padded = padded, stride = stride](RowBench& b) {
         const auto* targets = b.array<std::int32_t>(1);
         auto* partial = b.array<RowPartial>(2);
         auto* loss = static_cast<double*>(b.scratch(sizeof(double)));  // of all rows
         const double* scale = b.put(std::vector<double>{0.125});
         const CrossEntropyKernels& k = b.kernels().cross_entropy;
         k.partial(b.stream(),
                   {b.rows(), columns, stride, 0, b.array(0), targets, partial, DType::bf16});
         k.combine(b.stream(), {b.rows(), 1, partial, targets, b.array<float>(3), loss});
         k.backward(b.stream(), {b.rows(), columns, padded, stride, 0, b.array(0), targets,
                                 b.array<float>(3), scale, b.array(0), DType::bf16});
       },
       2e-6});
}

}  // namespace
}  // namespace trireme::test
