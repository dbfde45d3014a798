// Attention on a GPU, with and without tensor cores, agrees with that on the CPU.
#include "trireme/kernels/attention.h"

#include "runtime/core/at.h"
#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {
namespace {

using Doubles = std::vector<double>;

/// What a test runs, and how much of it may differ.
struct AttentionCase {
  AttentionShape shape;
  DType dtype = DType::f32;
  AttentionChoice choice = AttentionChoice::automatic;  // on the GPU
  Write write = Write::assign;
  Index shift = 0;
  float range = 1;
  double tolerance = 4e-6;  // of fp32 sums
};

/// Inputs of both passes. Backward reads the same result and sums on both devices, so that each
/// pass is compared alone.
struct Inputs {
  Floats qkv, dy, before, y, logsumexp;
};

Floats rounded(Floats x, DType dtype) {
  if (dtype == DType::bf16)
    for (float& value : x) value = to_float(to_bf16(value));
  return x;
}

Inputs inputs(const AttentionCase& c) {
  const AttentionShape& s = c.shape;
  const Index rows = s.batch * s.sequence, y_count = rows * s.query_heads * s.head_dim;
  const Index count = rows * (s.query_heads + 2 * s.kv_heads) * s.head_dim;
  Inputs x{rounded(random_floats(count, "qkv", -c.range, c.range), c.dtype),
           rounded(random_floats(y_count, "dy"), c.dtype),
           rounded(random_floats(count, "dqkv"), c.dtype), Floats(at(y_count)),
           Floats(at(rows * s.query_heads))};
  const auto cpu = open_cpu();
  const auto stream = cpu->make_stream();
  const AttentionKernels& k = cpu->kernels().attention;
  const Buffer workspace = cpu->allocate(
      attention_forward_workspace_bytes(cpu->traits(), s, DType::f32, AttentionChoice::automatic));
  k.forward(*stream, {s, x.qkv.data(), x.y.data(), x.logsumexp.data(), workspace.data()});
  x.y = rounded(std::move(x.y), c.dtype);
  return x;
}

/// What the workspace holds does not matter. It is not compared: the devices want different ones.
void forward(Bench& b, const AttentionCase& c, const Inputs& x) {
  const AttentionKernels& k = b.kernels().attention;
  Device& device = b.stream().device();
  const AttentionChoice choice =
      device.kind() == DeviceKind::cuda ? c.choice : AttentionChoice::automatic;
  const Buffer workspace =
      device.allocate(attention_forward_workspace_bytes(device.traits(), c.shape, c.dtype, choice));
  const void* qkv = b.put(x.qkv, c.dtype, c.shift);
  void* y = b.put(Floats(x.y.size()), c.dtype, c.shift);
  float* sums = b.put(Floats(x.logsumexp.size()));
  k.forward(b.stream(), {c.shape, qkv, y, sums, workspace.data(), c.dtype, choice});
  b.stream().synchronize();
}
void backward(Bench& b, const AttentionCase& c, const Inputs& x) {
  const AttentionKernels& k = b.kernels().attention;
  Device& device = b.stream().device();
  const AttentionChoice choice =
      device.kind() == DeviceKind::cuda ? c.choice : AttentionChoice::automatic;
  const Buffer workspace = device.allocate(
      attention_backward_workspace_bytes(device.traits(), c.shape, c.dtype, choice));
  const void* qkv = b.put(x.qkv, c.dtype, c.shift);
  const void* y = b.put(x.y, c.dtype, c.shift);
  const void* dy = b.put(x.dy, c.dtype, c.shift);
  const float* sums = b.put(x.logsumexp);
  void* dqkv = b.put(x.before, c.dtype, c.shift);
  k.backward(b.stream(),
             {c.shape, qkv, y, sums, dy, dqkv, c.write, workspace.data(), c.dtype, choice});
  b.stream().synchronize();
}

/// How far tensor cores may be from fp32: they round weights, and slopes of scores, to bf16 (a
/// relative error of at most 2^-8) before they multiply, so a result may be off by 2^-8 of the sum
/// of the magnitudes of its terms; adding rounds once more.
struct Bounds {
  double y = 0, dqkv = 0;
};
Bounds mma_bounds(const AttentionCase& c, const Inputs& x) {
  const AttentionShape& s = c.shape;
  const Index d = s.head_dim, width = (s.query_heads + 2 * s.kv_heads) * d;
  const Index y_width = s.query_heads * d, group = s.query_heads / s.kv_heads;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  Doubles y(x.y.size()), dqkv(x.qkv.size());
  for (Index b = 0; b < s.batch; ++b)
    for (Index h = 0; h < s.query_heads; ++h)
      for (Index q = 0; q < s.sequence; ++q)
        for (Index k = 0; k <= q; ++k) {
          const Index query = (b * s.sequence + q) * width + h * d;
          const Index out = (b * s.sequence + q) * y_width + h * d;
          const Index key = (b * s.sequence + k) * width + (s.query_heads + h / group) * d;
          const Index value = key + s.kv_heads * d;
          double score = 0, slope = 0;
          for (Index e = 0; e < d; ++e) {
            score += scale * x.qkv[at(query + e)] * x.qkv[at(key + e)];
            slope +=
                static_cast<double>(x.dy[at(out + e)]) * (x.qkv[at(value + e)] - x.y[at(out + e)]);
          }
          const Index sum = (b * s.query_heads + h) * s.sequence + q;
          const double weight = std::exp(score - x.logsumexp[at(sum)]);
          const double steep = std::fabs(weight * slope) * scale;
          for (Index e = 0; e < d; ++e) {
            y[at(out + e)] += weight * std::fabs(x.qkv[at(value + e)]);
            dqkv[at(value + e)] += weight * std::fabs(x.dy[at(out + e)]);
            dqkv[at(query + e)] += steep * std::fabs(x.qkv[at(key + e)]);
            dqkv[at(key + e)] += steep * std::fabs(x.qkv[at(query + e)]);
          }
        }
  const double rounding = std::ldexp(1.0, -8);
  return {rounding * *std::max_element(y.begin(), y.end()),
          rounding * (c.write == Write::add ? 2 : 1) * *std::max_element(dqkv.begin(), dqkv.end())};
}

std::string describe(const AttentionCase& c) {
  const AttentionShape& s = c.shape;
  return str("batch ", s.batch, " sequence ", s.sequence, " heads ", s.query_heads, "/", s.kv_heads,
             " of ", s.head_dim, " in ", c.dtype, " by ", name(c.choice));
}

void attention_agrees(const AttentionCase& c) {
  SCOPED_TRACE(describe(c));
  const Inputs x = inputs(c);
  const bool mma = c.choice == AttentionChoice::mma;
  const Bounds bounds = mma ? mma_bounds(c, x) : Bounds{};
  const Bf16Tolerance bf16{.units = 1, .share = mma ? 1 : 0.02};
  expect_agree([&](Bench& b) { forward(b, c, x); }, c.tolerance + bounds.y, bf16);
  expect_agree([&](Bench& b) { backward(b, c, x); }, c.tolerance + bounds.dqkv, bf16);
}

TEST(CudaAttention, AgreesForUsualHeads) {
  for (const Index dim : {32, 64, 96, 128})
    for (const Write write : {Write::assign, Write::add})
      attention_agrees({.shape = {1, 70, 2, 2, dim}, .write = write});
}

TEST(CudaAttention, AgreesForOddSizes) {
  attention_agrees({.shape = {1, 1, 1, 1, 1}});
  attention_agrees({.shape = {2, 31, 3, 3, 5}});
  attention_agrees({.shape = {1, 33, 1, 1, 33}, .write = Write::add});
  attention_agrees({.shape = {1, 17, 1, 1, 100}});
  attention_agrees({.shape = {2, 64, 1, 1, 40}});
  attention_agrees({.shape = {1, 65, 1, 1, 8}, .write = Write::add, .shift = 1});
  attention_agrees({.shape = {1, 20, 2, 1, 72}, .shift = 2});
}

TEST(CudaAttention, AgreesAcrossManyBlocks) {
  attention_agrees({.shape = {1, 200, 1, 1, 16}});
  attention_agrees({.shape = {1, 129, 1, 1, 104}});
}

TEST(CudaAttention, SharesKeysAmongGroupsOfQueries) {
  attention_agrees({.shape = {2, 50, 6, 2, 8}});
  attention_agrees({.shape = {2, 70, 4, 1, 32}, .write = Write::add});
}

TEST(CudaAttention, StaysFiniteForLargeScores) {
  attention_agrees({.shape = {1, 97, 1, 1, 64}, .range = 12, .tolerance = 3e-5});
}

TEST(CudaAttention, AgreesInBf16) {
  const auto simt = AttentionChoice::simt;
  attention_agrees({{1, 70, 2, 1, 64}, DType::bf16, simt});
  attention_agrees({{1, 70, 1, 1, 128}, DType::bf16, simt, Write::add});
  attention_agrees({{2, 31, 3, 3, 5}, DType::bf16});
  attention_agrees({{1, 33, 1, 1, 40}, DType::bf16, simt, Write::add});
  attention_agrees({{1, 65, 1, 1, 32}, DType::bf16, AttentionChoice::automatic, Write::assign, 1});
}

AttentionCase by_mma(const AttentionShape& shape, Write write = Write::assign) {
  return {.shape = shape, .dtype = DType::bf16, .choice = AttentionChoice::mma, .write = write};
}

TEST(CudaAttention, OnTensorCoresTakesAnyLength) {
  for (const Index sequence : {1, 17, 63, 64, 65, 130}) {
    attention_agrees(by_mma({1, sequence, 1, 1, 32}));
    attention_agrees(by_mma({1, sequence, 1, 1, 128}, Write::add));
  }
}

TEST(CudaAttention, OnTensorCoresTakesUsualHeads) {
  for (const Index dim : {32, 64, 96, 128})
    for (const Write write : {Write::assign, Write::add})
      attention_agrees(by_mma({1, 130, 1, 1, dim}, write));
}

TEST(CudaAttention, OnTensorCoresSharesKeysAmongGroupsOfQueries) {
  attention_agrees(by_mma({2, 65, 2, 2, 32}));
  attention_agrees(by_mma({2, 65, 4, 2, 64}, Write::add));
  attention_agrees(by_mma({2, 65, 4, 1, 96}));
}

TEST(CudaAttention, OnTensorCoresStaysFiniteForLargeScores) {
  AttentionCase c = by_mma({1, 97, 1, 1, 64});
  c.range = 12;
  c.tolerance = 3e-5;
  attention_agrees(c);
}

/// The same passes on a GPU, by one kind of kernels and the other.
TEST(CudaAttention, OnTensorCoresAgreesWithOrdinaryOnes) {
  AttentionCase c = by_mma({2, 70, 2, 1, 64});
  const Inputs x = inputs(c);
  const Bounds bounds = mma_bounds(c, x);
  const auto results = [&](AttentionChoice choice, auto pass) {
    c.choice = choice;
    Bench gpu(open_gpu());
    pass(gpu, c, x);
    return gpu.results();
  };
  using Pass = void (*)(Bench&, const AttentionCase&, const Inputs&);
  for (const auto& [pass, bound] :
       {std::pair<Pass, double>(forward, bounds.y), {backward, bounds.dqkv}})
    expect_close(results(AttentionChoice::mma, pass), results(AttentionChoice::simt, pass),
                 4e-6 + bound, {.units = 1, .share = 1});
}

// The largest score drops it (Max); the sum of the weights does not.
TEST(CudaAttention, ANaNShowsInEveryRowThatSeesIt) {
  constexpr Index sequence = 70, head = 64, bad = 40;
  for (const auto& [dtype, choice] : {std::pair(DType::f32, AttentionChoice::simt),
                                      {DType::bf16, AttentionChoice::simt},
                                      {DType::bf16, AttentionChoice::mma}}) {
    const AttentionCase c{.shape = {1, sequence, 1, 1, head}, .dtype = dtype, .choice = choice};
    SCOPED_TRACE(describe(c));
    Inputs x = inputs(c);
    x.qkv[at((3 * bad + 1) * head + 5)] = std::nanf("");  // of its key
    in_every_order([&] {
      Bench gpu(open_gpu());
      forward(gpu, c, x);
      const std::vector<Element> results = gpu.results();
      for (Index row = 0; row < sequence; ++row)
        for (Index i = 0; i < head; ++i)
          ASSERT_EQ(std::isnan(results[x.qkv.size() + at(row * head + i)].value), row >= bad)
              << "row " << row;
    });
  }
}

TEST(CudaAttention, ChoosesTensorCoresByDefault) {
  AttentionCase c = by_mma({1, 33, 1, 1, 64});
  const Inputs x = inputs(c);
  const auto results = [&](AttentionChoice choice, Index shift) {
    c.choice = choice;
    c.shift = shift;
    Bench gpu(open_gpu());
    forward(gpu, c, x);
    return gpu.results();
  };
  EXPECT_TRUE(results(AttentionChoice::automatic, 0) == results(AttentionChoice::mma, 0));
  EXPECT_FALSE(results(AttentionChoice::automatic, 0) == results(AttentionChoice::simt, 0));
  EXPECT_TRUE(results(AttentionChoice::automatic, 1) == results(AttentionChoice::simt, 1))
      << "arrays that tensor cores cannot read";
  EXPECT_THROW(results(AttentionChoice::mma, 1), Error);
}

TEST(CudaAttention, RejectsWhatItCannotDo) {
  const auto device = open_gpu();
  EXPECT_THROW(attention_forward_workspace_bytes(device->traits(), {1, 8, 5, 2, 4}, DType::f32,
                                                 AttentionChoice::automatic),
               Error);
  EXPECT_THROW(attention_backward_workspace_bytes(device->traits(), {1, 8, 2, 2, 136}, DType::f32,
                                                  AttentionChoice::automatic),
               Error);
  EXPECT_THROW(attention_forward_workspace_bytes(device->traits(), {1, 8, 2, 2, 64}, DType::f64,
                                                 AttentionChoice::automatic),
               Error);
}

}  // namespace
}  // namespace trireme::test
