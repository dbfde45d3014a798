// Attention on tensor cores against the ordinary ones, both on the GPU, where it has many blocks,
// long sequences and strides between sequences of many bytes; and some heads against their
// definition.
#include "trireme/kernels/attention.h"

#include <algorithm>
#include <chrono>

#include "runtime/core/at.h"
#include "tests/gpu/large/attention_reference.h"

namespace trireme::test {
namespace {

/// What a pass reads and writes, on the GPU.
class Attention {
 public:
  explicit Attention(const AttentionShape& s)
      : shape_(s),
        width_((s.query_heads + 2 * s.kv_heads) * s.head_dim),
        y_width_(s.query_heads * s.head_dim) {
    // Scores of some size: weights that differ.
    Numbers("qkv", -2, 2, DType::bf16).fill(*stream_, qkv_.data(), rows() * width_);
    Numbers("dy", -1, 1, DType::bf16).fill(*stream_, dy_.data(), rows() * y_width_);
  }

  Stream& stream() { return *stream_; }
  Index rows() const { return shape_.batch * shape_.sequence; }
  Index y_count() const { return rows() * y_width_; }
  Index dqkv_count() const { return rows() * width_; }

  struct Results {
    Buffer y, sums, dqkv;
  };
  /// Backward reads `y` and `sums` of `first`, or what this forward gave.
  Results run(AttentionChoice choice, const Results* first = nullptr) {
    const AttentionKernels& k = device_->kernels().attention;
    Results r{device_->allocate(2 * y_count()), device_->allocate(4 * rows() * shape_.query_heads),
              device_->allocate(2 * dqkv_count())};
    const Buffer before = device_->allocate(
        attention_forward_workspace_bytes(device_->traits(), shape_, DType::bf16, choice));
    const Buffer after = device_->allocate(
        attention_backward_workspace_bytes(device_->traits(), shape_, DType::bf16, choice));
    k.forward(*stream_, {shape_, qkv_.data(), r.y.data(), reinterpret_cast<float*>(r.sums.data()),
                         before.data(), DType::bf16, choice});
    const Results& from = first != nullptr ? *first : r;
    k.backward(*stream_, {shape_, qkv_.data(), from.y.data(),
                          reinterpret_cast<const float*>(from.sums.data()), dy_.data(),
                          r.dqkv.data(), Write::assign, after.data(), DType::bf16, choice});
    stream_->synchronize();
    return r;
  }

  /// What the passes of the GPU, which gave `r`, are held against.
  AttentionReference reference(const Results& r) {
    return {shape_, on_host(qkv_), on_host(dy_), on_host(r.y), copied<float>(r.sums)};
  }
  Floats on_host(const Buffer& memory) {
    const std::vector<Bf16> stored = copied<Bf16>(memory);
    Floats values(stored.size());
    std::transform(stored.begin(), stored.end(), values.begin(),
                   [](Bf16 x) { return to_float(x); });
    return values;
  }

 private:
  template <class T>
  std::vector<T> copied(const Buffer& memory) {
    std::vector<T> host(at(memory.bytes()) / sizeof(T));
    stream_->copy(host.data(), memory.data(), memory.bytes());
    stream_->synchronize();
    return host;
  }

  AttentionShape shape_;
  Index width_, y_width_;
  std::unique_ptr<Device> device_ = open_gpu();
  std::unique_ptr<Stream> stream_ = device_->make_stream();
  Buffer qkv_ = device_->allocate(2 * rows() * width_), dy_ = device_->allocate(2 * y_count());
};

/// How far apart the heads of rows are, head_dim elements each: the length of the difference, as a
/// share of the length of the one, or of the usual length where that is shorter than a `floor`th
/// of it.
struct HeadDistance {
  double mean = 0, largest = 0;
  Index worst = 0;
};
HeadDistance distance(const Floats& got, const Floats& expected, Index head) {
  constexpr double floor = 1.0 / 16;
  double squares = 0;
  for (const float x : expected) squares += static_cast<double>(x) * x;
  const auto heads = static_cast<Index>(expected.size()) / head;
  const double least = floor * std::sqrt(squares / static_cast<double>(heads));
  HeadDistance d;
  for (Index h = 0; h < heads; ++h) {
    double length = 0, apart = 0;
    for (std::size_t i = at(h * head); i < at((h + 1) * head); ++i) {
      const double e = expected[i], difference = got[i] - e;
      length += e * e;
      apart += difference * difference;
    }
    const double share = std::sqrt(apart) / std::max(std::sqrt(length), least);
    d.mean += share / static_cast<double>(heads);
    if (share <= d.largest) continue;
    d.largest = share;
    d.worst = h;
  }
  return d;
}

/// A weight, or slope, that is rounded to bf16 is off by 2^-8 of itself at most, and so is the
/// result. The signs of many such differences are by chance, so the length of a head differs by
/// less: by 0.0025 in the mean and 0.005 at most on the emulation, whatever the length.
std::string expect_close_heads(const char* what, const Floats& got, const Floats& expected,
                               Index head) {
  const HeadDistance d = distance(got, expected, head);
  EXPECT_LE(d.largest, 1.0 / 64) << what << ", head " << d.worst << " of all rows";
  EXPECT_LE(d.mean, 1.0 / 256) << what;
  return str(' ', what, " mean ", d.mean, " worst ", d.largest);
}

/// Heads by chance, of the first row, the last one and others.
std::vector<HeadOfRow> some_heads(const AttentionShape& s, Index heads) {
  const Random random = random_for(1, "heads");
  std::vector<HeadOfRow> some;
  for (Index i = 0; i < 16; ++i) {
    const Index row = i == 0 ? 0 : i == 1 ? s.sequence - 1 : random.bits(3 * i) % s.sequence;
    some.push_back({random.bits(3 * i + 1) % s.batch, row, random.bits(3 * i + 2) % heads});
  }
  return some;
}

/// Heads of the results against their definition.
std::string some_heads_are_right(const AttentionReference& reference, const Floats& y,
                                 const Floats& dqkv) {
  const AttentionShape& s = reference.shape;
  const auto compare = [&](const char* what, Index heads, const Floats& results, auto place,
                           auto value) {
    Floats got, expected;
    for (const HeadOfRow& head : some_heads(s, heads)) {
      const auto* const from = results.data() + (reference.*place)(head);
      got.insert(got.end(), from, from + s.head_dim);
      for (const double x : (reference.*value)(head)) expected.push_back(static_cast<float>(x));
    }
    return expect_close_heads(what, got, expected, s.head_dim);
  };
  using R = AttentionReference;
  return compare("y", s.query_heads, y, &R::output_at, &R::output) +
         compare("dq", s.query_heads, dqkv, &R::query_at, &R::query_gradient) +
         compare("dk", s.kv_heads, dqkv, &R::key_at, &R::key_gradient) +
         compare("dv", s.kv_heads, dqkv, &R::value_at, &R::value_gradient);
}

void kernels_agree(const AttentionShape& s) {
  const auto start = std::chrono::steady_clock::now();
  require_free(*open_gpu(),
               12 * s.batch * s.sequence * (s.query_heads * 2 + 2 * s.kv_heads) * s.head_dim);
  Attention attention(s);
  const Attention::Results simt = attention.run(AttentionChoice::simt);
  const Attention::Results mma = attention.run(AttentionChoice::mma, &simt);
  const Floats y = attention.on_host(mma.y), dqkv = attention.on_host(mma.dqkv);
  std::string text = str("batch ", s.batch, " sequence ", s.sequence, " heads ", s.query_heads, '/',
                         s.kv_heads, " of ", s.head_dim, "; against simt:");
  text += expect_close_heads("y", y, attention.on_host(simt.y), s.head_dim);
  text += expect_close_heads("dqkv", dqkv, attention.on_host(simt.dqkv), s.head_dim);
  text += "; 16 heads of rows:" + some_heads_are_right(attention.reference(simt), y, dqkv);

  const Attention::Results again = attention.run(AttentionChoice::mma, &simt);
  Stream& stream = attention.stream();
  EXPECT_TRUE(same_numbers(stream, again.y.data(), mma.y.data(), attention.y_count(), DType::bf16));
  EXPECT_TRUE(same_numbers(stream, again.dqkv.data(), mma.dqkv.data(), attention.dqkv_count(),
                           DType::bf16));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  report(str(text, "; ", seconds.count(), " s"));
}

TEST_P(OnLargeArrays, AttentionOfManySequences) {
  kernels_agree(sized(AttentionShape{32, 1024, 12, 12, 64}, AttentionShape{2, 130, 3, 3, 64}));
}

TEST_P(OnLargeArrays, AttentionOfGroupsOfQueries) {
  kernels_agree(sized(AttentionShape{4, 2048, 32, 8, 64}, AttentionShape{2, 130, 4, 1, 64}));
}

TEST_P(OnLargeArrays, AttentionOfLongSequences) {
  kernels_agree(sized(AttentionShape{1, 8192, 32, 8, 128}, AttentionShape{1, 260, 4, 2, 128}));
}

}  // namespace
}  // namespace trireme::test
