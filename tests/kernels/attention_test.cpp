// Attention on CPUs against a reference in fp64, and the choice of kernels on GPUs.
#include "trireme/kernels/attention.h"

#include "trireme/core/bf16.h"

#include "runtime/core/at.h"
#include "tests/kernels/all_instruction_sets.h"

namespace trireme {
namespace {

struct Reference {
  Doubles y, logsumexp, dqkv;
};

// The textbook form: a sequence x sequence matrix of weights for every head.
Reference reference(const AttentionShape& s, const Floats& qkv, const Floats& dy) {
  const Index width = (s.query_heads + 2 * s.kv_heads) * s.head_dim,
              y_width = s.query_heads * s.head_dim;
  Reference r{Doubles(at(s.batch * s.sequence * y_width)),
              Doubles(at(s.batch * s.query_heads * s.sequence)),
              Doubles(at(s.batch * s.sequence * width))};
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  for (Index b = 0; b < s.batch; ++b)
    for (Index h = 0; h < s.query_heads; ++h)
      for (Index t = 0; t < s.sequence; ++t) {
        const Index kv = h / (s.query_heads / s.kv_heads);
        const Index q_at = (b * s.sequence + t) * width + h * s.head_dim;
        const Index y_at = (b * s.sequence + t) * y_width + h * s.head_dim;
        const auto k_at = [&](Index u) {
          return (b * s.sequence + u) * width + (s.query_heads + kv) * s.head_dim;
        };
        const auto v_at = [&](Index u) { return k_at(u) + s.kv_heads * s.head_dim; };
        const auto x = [&](Index i) { return static_cast<double>(qkv[at(i)]); };
        Doubles weights(at(t + 1)), slopes(at(t + 1));
        double largest = -1e300, total = 0, mean_slope = 0;
        for (Index u = 0; u <= t; ++u) {
          for (Index d = 0; d < s.head_dim; ++d)
            weights[at(u)] += x(q_at + d) * x(k_at(u) + d) * scale;
          largest = std::max(largest, weights[at(u)]);
        }
        for (double& w : weights) total += w = std::exp(w - largest);
        r.logsumexp[at((b * s.query_heads + h) * s.sequence + t)] = largest + std::log(total);
        for (Index u = 0; u <= t; ++u) {
          weights[at(u)] /= total;
          for (Index d = 0; d < s.head_dim; ++d) {
            r.y[at(y_at + d)] += weights[at(u)] * x(v_at(u) + d);
            slopes[at(u)] += static_cast<double>(dy[at(y_at + d)]) * x(v_at(u) + d);
          }
          mean_slope += weights[at(u)] * slopes[at(u)];
        }
        for (Index u = 0; u <= t; ++u)
          for (Index d = 0; d < s.head_dim; ++d) {
            const double ds = weights[at(u)] * (slopes[at(u)] - mean_slope) * scale;
            r.dqkv[at(q_at + d)] += ds * x(k_at(u) + d);
            r.dqkv[at(k_at(u) + d)] += ds * x(q_at + d);
            r.dqkv[at(v_at(u) + d)] += weights[at(u)] * static_cast<double>(dy[at(y_at + d)]);
          }
      }
  return r;
}

struct Result {
  Floats y, logsumexp, dqkv;
};

Result run(Stream& s, const AttentionShape& shape, const Floats& qkv, const Floats& dy, Write write,
           const Floats& before) {
  const AttentionKernels& k = s.kernels().attention;
  Result r{Floats(dy.size()), Floats(at(shape.batch * shape.query_heads * shape.sequence)), before};
  // Workspace holds anything: what is read must have been written.
  const Buffer forward = s.device().allocate(attention_forward_workspace_bytes(
      s.device().traits(), shape, DType::f32, AttentionChoice::automatic));
  const Buffer backward = s.device().allocate(attention_backward_workspace_bytes(
      s.device().traits(), shape, DType::f32, AttentionChoice::automatic));
  std::memset(forward.data(), 0xff, at(forward.bytes()));
  std::memset(backward.data(), 0xff, at(backward.bytes()));
  k.forward(s, {shape, qkv.data(), r.y.data(), r.logsumexp.data(), forward.data()});
  k.backward(s, {shape, qkv.data(), r.y.data(), r.logsumexp.data(), dy.data(), r.dqkv.data(), write,
                 backward.data()});
  return r;
}

// Scores of size S carry an error of S ulps, and so do the weights made of them.
void check_attention(const AttentionShape& shape, float range = 1, double tolerance = 2e-6) {
  SCOPED_TRACE(str("batch ", shape.batch, " sequence ", shape.sequence, " heads ",
                   shape.query_heads, "/", shape.kv_heads, " of ", shape.head_dim));
  const Index rows = shape.batch * shape.sequence;
  const Floats qkv = random_values(rows * (shape.query_heads + 2 * shape.kv_heads) * shape.head_dim,
                                   "qkv", -range, range);
  const Floats dy = random_values(rows * shape.query_heads * shape.head_dim, "dy");
  const Floats before = random_values(static_cast<Index>(qkv.size()), "before");
  const Reference r = reference(shape, qkv, dy);
  expect_everywhere([&](Stream& s) { return run(s, shape, qkv, dy, Write::assign, before).y; }, r.y,
                    tolerance);
  expect_everywhere(
      [&](Stream& s) { return run(s, shape, qkv, dy, Write::assign, before).logsumexp; },
      r.logsumexp, tolerance);
  expect_everywhere([&](Stream& s) { return run(s, shape, qkv, dy, Write::assign, before).dqkv; },
                    r.dqkv, 2 * tolerance);
  Doubles added = r.dqkv;
  for (std::size_t i = 0; i < added.size(); ++i) added[i] += static_cast<double>(before[i]);
  expect_everywhere([&](Stream& s) { return run(s, shape, qkv, dy, Write::add, before).dqkv; },
                    added, 2 * tolerance);
}

TEST(Attention, MatchesTheReferenceForOddSizes) {
  check_attention({1, 1, 1, 1, 1});
  check_attention({2, 31, 3, 3, 5});
  check_attention({1, 33, 2, 2, 33});
  check_attention({1, 47, 1, 1, 100});
}

TEST(Attention, MatchesTheReferenceForUsualHeads) {
  for (Index dim : {32, 64, 96, 128}) check_attention({2, 65, 2, 2, dim});
}

TEST(Attention, MatchesTheReferenceAcrossBlocks) {
  check_attention({1, 193, 1, 1, 64});
  check_attention({1, 401, 2, 1, 16});
  check_attention({2, 256, 1, 1, 64});
}

TEST(Attention, SharesKeysAmongGroupsOfQueries) {
  check_attention({2, 50, 6, 2, 8});
  check_attention({2, 50, 4, 1, 32});
}

TEST(Attention, StaysFiniteForLargeScores) { check_attention({1, 97, 1, 1, 64}, 12, 3e-5); }

TEST(Attention, ARowDependsOnlyOnWhatIsBeforeIt) {
  const AttentionShape whole = {1, 230, 2, 1, 24}, half = {1, 201, 2, 1, 24};
  const Index width = 4 * 24;
  const Floats qkv = random_values(230 * width, "qkv"), dy(at(230 * 48)), none(qkv.size());
  for (InstructionSet set : instruction_sets()) {
    const auto device = open_cpu({1, set});
    const auto stream = device->make_stream();
    const Floats all = run(*stream, whole, qkv, dy, Write::assign, none).y;
    const Floats first = run(*stream, half, Floats(qkv.begin(), qkv.begin() + 201 * width),
                             Floats(at(201 * 48)), Write::assign, Floats(at(201 * width)))
                             .y;
    EXPECT_TRUE(same_bits(first, Floats(all.begin(), all.begin() + 201 * 48))) << name(set);
  }
}

using Bf16s = std::vector<Bf16>;

Bf16s rounded(const Floats& x) {
  Bf16s y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = to_bf16(x[i]);
  return y;
}
Floats widened(const Bf16s& x) {
  Floats y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = to_float(x[i]);
  return y;
}
bool same_bf16(const Bf16s& a, const Bf16s& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Bf16)) == 0;
}

/// bf16 is a way to store, not to compute: results are those of fp32, rounded once.
void bf16_is_rounded_fp32(const AttentionShape& shape, Write write) {
  const Index rows = shape.batch * shape.sequence;
  const Index count = rows * (shape.query_heads + 2 * shape.kv_heads) * shape.head_dim;
  const Index y_count = rows * shape.query_heads * shape.head_dim;
  const Bf16s qkv = rounded(random_values(count, "qkv")),
              dy = rounded(random_values(y_count, "dy"));
  const Bf16s before = rounded(random_values(count, "before"));
  const Floats qkv32 = widened(qkv), dy32 = widened(dy);
  for (const InstructionSet set : instruction_sets())
    for (const int threads : {1, 3}) {
      const auto device = open_cpu({threads, set});
      const auto stream = device->make_stream();
      const AttentionKernels& k = device->kernels().attention;
      Floats y32(at(y_count)), sums32(at(rows * shape.query_heads)), sums = sums32;
      Floats dqkv32 = widened(before);
      Bf16s y(at(y_count)), dqkv = before;
      const Index bytes =
          std::max(attention_forward_workspace_bytes(device->traits(), shape, DType::bf16,
                                                     AttentionChoice::automatic),
                   attention_backward_workspace_bytes(device->traits(), shape, DType::bf16,
                                                      AttentionChoice::automatic));
      const Buffer workspace = device->allocate(bytes);
      std::memset(workspace.data(), 0xff, at(bytes));
      void* w = workspace.data();
      k.forward(*stream, {shape, qkv32.data(), y32.data(), sums32.data(), w});
      k.forward(*stream, {shape, qkv.data(), y.data(), sums.data(), w, DType::bf16});
      EXPECT_TRUE(same_bf16(y, rounded(y32))) << name(set);
      EXPECT_TRUE(same_bits(sums, sums32)) << name(set);
      y32 = widened(y);  // what backward reads
      std::memset(workspace.data(), 0xff, at(bytes));
      k.backward(*stream, {shape, qkv32.data(), y32.data(), sums.data(), dy32.data(), dqkv32.data(),
                           Write::assign, w});
      if (write == Write::add)
        for (std::size_t i = 0; i < before.size(); ++i) dqkv32[i] += to_float(before[i]);
      k.backward(*stream, {shape, qkv.data(), y.data(), sums.data(), dy.data(), dqkv.data(), write,
                           w, DType::bf16});
      EXPECT_TRUE(same_bf16(dqkv, rounded(dqkv32))) << name(set);
    }
}

TEST(Attention, InBf16IsTheFp32ResultRounded) {
  bf16_is_rounded_fp32({2, 50, 6, 2, 8}, Write::assign);
  bf16_is_rounded_fp32({1, 193, 2, 2, 33}, Write::add);
  bf16_is_rounded_fp32({2, 64, 4, 1, 64}, Write::add);
}

TEST(Attention, OnACpuHasOneKindOfKernels) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  EXPECT_THROW(
      device->kernels().attention.forward(
          *stream,
          {{1, 1, 1, 1, 1}, nullptr, nullptr, nullptr, nullptr, DType::bf16, AttentionChoice::mma}),
      Error);
}

TEST(Attention, ChoosesTensorCoresWhereTheyCan) {
  using enum AttentionChoice;
  for (const Index dim : {32, 64, 96, 128}) {
    EXPECT_EQ(attention_choice({DType::bf16, dim, 17, 80}, automatic), mma);
    EXPECT_EQ(attention_choice({DType::bf16, dim, 17, 90}, mma), mma);
    EXPECT_EQ(attention_choice({DType::bf16, dim, 17, 90}, simt), simt);
    EXPECT_EQ(attention_choice({DType::bf16, dim, 17, 75}, automatic), simt);
    EXPECT_EQ(attention_choice({DType::f32, dim, 17, 90}, automatic), simt);
  }
  EXPECT_EQ(attention_choice({DType::bf16, 80, 17, 90}, automatic), simt);
}

std::string refusal(const AttentionProblem& problem) {
  try {
    attention_choice(problem, AttentionChoice::mma);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Attention, SaysWhyTensorCoresCannot) {
  EXPECT_NE(refusal({DType::f32, 64, 17, 90}).find("bf16, got f32"), std::string::npos);
  EXPECT_NE(refusal({DType::bf16, 80, 17, 90}).find("got 80"), std::string::npos);
  EXPECT_NE(refusal({DType::bf16, 64, 17, 75}).find("7.5"), std::string::npos);
}

TEST(Attention, RejectsHeadsThatDoNotDivide) {
  const auto device = open_cpu();
  EXPECT_THROW(attention_forward_workspace_bytes(device->traits(), {1, 8, 5, 2, 4}, DType::f32,
                                                 AttentionChoice::automatic),
               Error);
}

}  // namespace
}  // namespace trireme
