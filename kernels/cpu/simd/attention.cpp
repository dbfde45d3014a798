// Blocked causal attention for one (batch, kv head): all its keys and values are packed once, then
// blocks of query rows run over blocks of keys up to the diagonal. Scores are kept in base 2:
// queries are packed times log2(e) / sqrt(head_dim). Register tiles above the diagonal are skipped;
// what a tile computes beyond it is overwritten with zeros.
#include "kernels/attention.h"

#include "trireme/kernels/write.h"

#include "kernels/cpu/simd/for_each_vector.h"
#include "kernels/cpu/simd/math.h"

namespace trireme::kernels::TRIREME_SIMD {
namespace {

// The register tile that attention multiplies with, and the packing of its operands.
// A tile's sums run over k one after the other, so they are equal bit for bit on every instruction
// set with FMA.

// A tile fills the registers with sums: 24 of 32 with AVX-512, 12 of 16 otherwise.
constexpr Index tile_rows = register_bytes == 64 ? 12 : 6;
constexpr Index tile_columns = 2 * register_lanes;

constexpr Index round_up(Index n, Index to) { return (n + to - 1) / to * to; }

/// How the left operand lies: a(r, i) is a[r * stride + i], or a[r + i * stride].
enum class Left { rows, columns };

/// c(tile_rows, tile_columns) = or += a(tile_rows, k) b(k, tile_columns). Strides in elements.
template <Write write, Left left>
[[gnu::noinline]] void multiply_tile(Index k, const float* a, Index a_stride, const float* b,
                                     Index b_stride, float* c, Index c_stride) {
  using R = Lanes<FloatRegister>;
  FloatRegister sums[tile_rows][2];
#pragma GCC unroll 16
  for (Index r = 0; r < tile_rows; ++r) {
    sums[r][0] = write == Write::add ? R::load(c + r * c_stride) : R::fill(0);
    sums[r][1] = write == Write::add ? R::load(c + r * c_stride + register_lanes) : R::fill(0);
  }
  const Index row = left == Left::rows ? a_stride : 1;
  for (Index i = 0; i < k; ++i) {
    const FloatRegister b0 = R::load(b), b1 = R::load(b + register_lanes);
#pragma GCC unroll 16
    for (Index r = 0; r < tile_rows; ++r) {
      const FloatRegister x = R::fill(a[r * row]);
      sums[r][0] = fma(x, b0, sums[r][0]);
      sums[r][1] = fma(x, b1, sums[r][1]);
    }
    a += left == Left::rows ? 1 : a_stride;
    b += b_stride;
  }
#pragma GCC unroll 16
  for (Index r = 0; r < tile_rows; ++r) {
    R::store(c + r * c_stride, sums[r][0]);
    R::store(c + r * c_stride + register_lanes, sums[r][1]);
  }
}

enum class Use { read, write };
/// Prefetches a row that will be needed soon: the strides of packed heads defeat the hardware
/// prefetcher.
template <Use use = Use::read>
TRIREME_INLINE void prefetch(const float* x, Index columns) {
  for (Index i = 0; i < columns; i += 16) __builtin_prefetch(x + i, use == Use::write, 3);
}
constexpr Index rows_ahead = 8;

/// to(count, stride) = factor * from(count, columns); zeros in further columns up to `padded` and
/// in rows up to `padded_count`.
TRIREME_INLINE void pack_rows(const float* from, Index from_stride, Index count, Index columns,
                              float factor, float* to, Index stride, Index padded,
                              Index padded_count) {
  for (Index r = 0; r < padded_count; ++r) {
    float* y = to + r * stride;
    if (r < count) {
      const float* x = from + r * from_stride;
      if (r + rows_ahead < count) prefetch(x + rows_ahead * from_stride, columns);
      for_each_vector(0, columns, [=](auto at) { at.store(y, at.load(x) * all(factor)); });
      for_each_vector(columns, padded, [=](auto at) { at.store(y, all(0)); });
    } else {
      for_each_vector(0, padded, [=](auto at) { at.store(y, all(0)); });
    }
  }
}

typedef float Four __attribute__((vector_size(16)));
typedef float UnalignedFour __attribute__((vector_size(16), aligned(4), may_alias));

/// The transpose of from(count, columns) in panels of tile_columns rows: element (r, j) goes to
/// to[(r / tile_columns) * columns * tile_columns + j * tile_columns + r % tile_columns]. The
/// content of a panel for rows past `count` does not matter: products with it are beyond the
/// diagonal.
TRIREME_INLINE void pack_transposed(const float* from, Index from_stride, Index count,
                                    Index columns, float* to) {
  for (Index first = 0; first < count; first += 4) {
    const Index rows = count - first < 4 ? count - first : 4;
    const float* x = from + first * from_stride;
    float* y = to + first / tile_columns * columns * tile_columns + first % tile_columns;
    for (Index r = 0; r < 4 && first + r + rows_ahead < count; ++r)
      prefetch(x + (r + rows_ahead) * from_stride, columns);
    Index j = 0;
    if (rows == 4)
      for (; j + 4 <= columns; j += 4) {
        const auto row = [=](Index r) -> Four {
          return *reinterpret_cast<const UnalignedFour*>(x + r * from_stride + j);
        };
        const Four a = row(0), b = row(1), c = row(2), d = row(3);
        const Four ab = shuffle<0, 4, 1, 5>(a, b), cd = shuffle<0, 4, 1, 5>(c, d);
        const Four AB = shuffle<2, 6, 3, 7>(a, b), CD = shuffle<2, 6, 3, 7>(c, d);
        const auto put = [=](Index column, Four v) {
          *reinterpret_cast<UnalignedFour*>(y + (j + column) * tile_columns) = v;
        };
        put(0, shuffle<0, 1, 4, 5>(ab, cd));
        put(1, shuffle<2, 3, 6, 7>(ab, cd));
        put(2, shuffle<0, 1, 4, 5>(AB, CD));
        put(3, shuffle<2, 3, 6, 7>(AB, CD));
      }
    for (; j < columns; ++j)
      for (Index r = 0; r < 4; ++r)
        y[j * tile_columns + r] = r < rows ? x[r * from_stride + j] : 0.0f;
  }
}

constexpr Index row_block = 48;   // query rows; a multiple of tile_rows
constexpr Index key_block = 192;  // a multiple of tile_rows and tile_columns
static_assert(row_block % tile_rows == 0 && key_block % tile_columns == 0);
static_assert(key_block % row_block ==
              0);  // so every row of a block sees at least one key of a block it meets
constexpr Index score_stride =
    key_block + lanes;  // an odd number of cache lines, with space for zeros after the diagonal
constexpr Index score_size = row_block * score_stride;
constexpr float log2_e = 1.44269504088896341f, ln_2 = 0.69314718055994531f;

constexpr Index at_most(Index a, Index b) { return a < b ? a : b; }
constexpr Index at_least(Index a, Index b) { return a < b ? b : a; }

// Sizes of packed operands. Rows are padded to whole tiles, and to an odd number of cache lines
// apart.
struct Sizes {
  Index sequence, dim, padded_dim, stride, qkv_stride, y_stride, group;
  float scale;

  explicit Sizes(const AttentionShape& s)
      : sequence(s.sequence),
        dim(s.head_dim),
        padded_dim(round_up(dim, tile_columns)),
        stride((round_up(padded_dim, lanes) / lanes | 1) * lanes),
        qkv_stride((s.query_heads + 2 * s.kv_heads) * dim),
        y_stride(s.query_heads * dim),
        group(s.query_heads / s.kv_heads),
        scale(1.0f / __builtin_sqrtf(static_cast<float>(dim))) {}
  Index packed_rows() const { return (round_up(sequence, tile_rows) + tile_rows) * stride; }
  Index packed_block() const { return row_block * stride; }
  Index transposed() const { return round_up(sequence, tile_columns) * dim; }
};

// These loops compute in fp32; the launcher widens what is stored otherwise.
TRIREME_INLINE const float* floats(const void* data) { return static_cast<const float*>(data); }
TRIREME_INLINE float* floats(void* data) { return static_cast<float*>(data); }

// Hands out parts of the workspace, 64-byte aligned.
struct Arena {
  float* next;
  Index used = 0;
  float* take(Index floats) {
    float* p = next == nullptr ? nullptr : next + used;
    used += round_up(floats, lanes);
    return p;
  }
};

struct ForwardMemory {
  float *keys, *values, *queries, *scores, *out, *largest, *total;
  Index bytes;
  ForwardMemory(const Sizes& s, std::byte* workspace) {
    Arena arena{reinterpret_cast<float*>(workspace)};
    keys = arena.take(s.transposed());
    values = arena.take(s.packed_rows());
    queries = arena.take(s.packed_block());
    scores = arena.take(score_size);
    out = arena.take(s.packed_block());
    largest = arena.take(row_block);
    total = arena.take(row_block);
    bytes = arena.used * static_cast<Index>(sizeof(float));
  }
};

struct BackwardMemory {
  float *keys, *keys_transposed, *values_transposed, *dkeys, *dvalues;  // whole sequence
  float *queries, *dout, *dqueries, *scores, *dscores;                  // a block of rows
  Index bytes;
  BackwardMemory(const Sizes& s, std::byte* workspace) {
    Arena arena{reinterpret_cast<float*>(workspace)};
    keys = arena.take(s.packed_rows());
    keys_transposed = arena.take(s.transposed());
    values_transposed = arena.take(s.transposed());
    dkeys = arena.take(s.packed_rows());
    dvalues = arena.take(s.packed_rows());
    queries = arena.take(s.packed_block());
    dout = arena.take(s.packed_block());
    dqueries = arena.take(s.packed_block());
    scores = arena.take(score_size);
    dscores = arena.take(score_size);
    bytes = arena.used * static_cast<Index>(sizeof(float));
  }
};

// Rows [row, row + rows) of the queries against keys [key, key + keys).
struct Block {
  Index row, rows, key, keys;
  Index tiles_end() const { return round_up(rows, tile_rows); }
  /// Keys of this block that the row tile from `r` on (relative) may see; at least one.
  Index seen_by_tile(Index r) const { return at_most(keys, row + r + tile_rows - key); }
  /// The same for one row.
  Index seen(Index r) const { return at_most(keys, row + r + 1 - key); }
};

// scores(rows, keys) = left(rows, dim) * transposed panels, where the diagonal lets anything
// through.
TRIREME_INLINE void scores_of(const Sizes& s, const Block& b, const float* left,
                              const float* panels, float* scores) {
  for (Index column = 0; column < b.keys; column += tile_columns) {
    const float* panel = panels + (b.key + column) * s.dim;
    for (Index r = 0; r < b.tiles_end(); r += tile_rows)
      if (column < b.seen_by_tile(r))
        multiply_tile<Write::assign, Left::rows>(s.dim, left + r * s.stride, s.stride, panel,
                                                 tile_columns, scores + r * score_stride + column,
                                                 score_stride);
  }
}

// out(rows, dim) = (the first block of keys) or += scores(rows, keys) * right(keys, dim).
TRIREME_INLINE void add_weighted_rows(const Sizes& s, const Block& b, const float* scores,
                                      const float* right, float* out) {
  const auto multiply =
      b.key == 0 ? multiply_tile<Write::assign, Left::rows> : multiply_tile<Write::add, Left::rows>;
  for (Index column = 0; column < s.padded_dim; column += tile_columns)
    for (Index r = 0; r < b.tiles_end(); r += tile_rows)
      multiply(b.seen_by_tile(r), scores + r * score_stride, score_stride,
               right + b.key * s.stride + column, s.stride, out + r * s.stride + column, s.stride);
}

// out(keys, dim) += transpose of scores(rows, keys) * right(rows, dim).
TRIREME_INLINE void add_weighted_columns(const Sizes& s, const Block& b, const float* scores,
                                         const float* right, float* out) {
  for (Index column = 0; column < s.padded_dim; column += tile_columns)
    for (Index k = 0; k < b.keys; k += tile_rows) {
      const Index first = at_least(0, b.key + k - b.row);  // rows before it do not see these keys
      if (first < b.rows)
        multiply_tile<Write::add, Left::columns>(b.rows - first, scores + first * score_stride + k,
                                                 score_stride, right + first * s.stride + column,
                                                 s.stride, out + (b.key + k) * s.stride + column,
                                                 s.stride);
    }
}

// 2^x for x <= 0, within 2 ulp; 2^-126 instead of anything smaller.
TRIREME_INLINE Floats exp2_of_negative(Floats x) {
  const Floats bounded = max(all(-126.0f), x);
  const Floats rounder = all(0x1.8p23f);
  const Floats shifted = bounded + rounder;
  const Floats r = bounded - (shifted - rounder);
  Floats p = all(1.53533571e-4f);  // fitted with p(0) = 1, relative error 2e-9
  p = fma(p, r, all(1.339888001e-3f));
  p = fma(p, r, all(9.618437423e-3f));
  p = fma(p, r, all(5.550332456e-2f));
  p = fma(p, r, all(2.402264791e-1f));
  p = fma(p, r, all(6.931472029e-1f));
  p = fma(p, r, all(1.0f));
  return from_bits(bits(p) + (bits(shifted) << 23));
}

alignas(64) constexpr float lane_numbers[lanes] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                   8, 9, 10, 11, 12, 13, 14, 15};

// f(first, mask) for the sixteens that hold the first n elements; mask(v, rest): `rest` in lanes
// past n.
template <class F>
TRIREME_INLINE void each_seen(Index n, F f) {
  Index i = 0;
  for (; i + lanes <= n; i += lanes) f(i, [](Floats v, Floats) { return v; });
  if (i < n) {
    const auto inside = load(lane_numbers) < all(static_cast<float>(n - i));
    f(i, [=](Floats v, Floats rest) { return select(inside, v, rest); });
  }
}

// scores -> weights relative to the largest so far; what was summed before is brought to the new
// scale.
TRIREME_INLINE void online_softmax(const Sizes& s, const Block& b, const ForwardMemory& m) {
  for (Index r = 0; r < b.rows; ++r) {
    const Index n = b.seen(r);
    float* x = m.scores + r * score_stride;
    Floats top = all(m.largest[r]);
    each_seen(n, [&](Index i, auto mask) { top = max(top, mask(load(x + i), top)); });
    const float largest = max_lanes(top);
    const Floats shift = all(largest);
    Floats sums = all(0);
    each_seen(n, [&](Index i, auto mask) {
      const Floats p = mask(exp2_of_negative(load(x + i) - shift), all(0));
      store(x + i, p);
      sums = sums + p;
    });
    store(x + round_up(n, lanes), all(0));  // the rest of its tiles
    if (b.key > 0) {
      float before;
      store(&before, exp2_of_negative(all(m.largest[r] - largest)), 1);
      m.total[r] = m.total[r] * before;
      float* out = m.out + r * s.stride;
      for_each_vector(0, s.padded_dim, [=](auto at) { at.store(out, at.load(out) * all(before)); });
    }
    m.total[r] += sum_lanes(sums);
    m.largest[r] = largest;
  }
}

TRIREME_INLINE void forward_rows(const AttentionForward& p, const Sizes& s, const ForwardMemory& m,
                                 Index batch, Index head, Index row) {
  const Index rows = at_most(row_block, s.sequence - row), token = batch * s.sequence + row;
  const float* queries = floats(p.qkv) + token * s.qkv_stride + head * s.dim;
  float* y = floats(p.y) + token * s.y_stride + head * s.dim;
  for (Index r = 0; r < rows; ++r) prefetch<Use::write>(y + r * s.y_stride, s.dim);
  pack_rows(queries, s.qkv_stride, rows, s.dim, s.scale * log2_e, m.queries, s.stride, s.padded_dim,
            row_block);
  for (Index r = 0; r < row_block; ++r) {
    m.largest[r] = -__builtin_inff();
    m.total[r] = 0;
  }
  for (Index key = 0; key < row + rows; key += key_block) {
    const Block b = {row, rows, key, at_most(key_block, s.sequence - key)};
    scores_of(s, b, m.queries, m.keys, m.scores);
    online_softmax(s, b, m);
    add_weighted_rows(s, b, m.scores, m.values, m.out);
  }
  float* logsumexp = p.logsumexp + (batch * p.shape.query_heads + head) * s.sequence + row;
  for (Index r = 0; r < rows; ++r) {
    const float* out = m.out + r * s.stride;
    const Floats factor = all(1.0f / m.total[r]);
    for_each_vector(0, s.dim,
                    [=](auto at) { at.store(y + r * s.y_stride, at.load(out) * factor); });
    logsumexp[r] = m.largest[r] * ln_2 + __builtin_logf(m.total[r]);
  }
}

void forward(const AttentionForward& p, Index batch, Index kv_head, std::byte* workspace) {
  const Sizes s(p.shape);
  const ForwardMemory m(s, workspace);
  const float* keys =
      floats(p.qkv) + batch * s.sequence * s.qkv_stride + (p.shape.query_heads + kv_head) * s.dim;
  const float* values = keys + p.shape.kv_heads * s.dim;
  pack_transposed(keys, s.qkv_stride, s.sequence, s.dim, m.keys);
  pack_rows(values, s.qkv_stride, s.sequence, s.dim, 1, m.values, s.stride, s.padded_dim,
            s.packed_rows() / s.stride);
  for (Index head = kv_head * s.group; head < (kv_head + 1) * s.group; ++head)
    for (Index row = 0; row < s.sequence; row += row_block) forward_rows(p, s, m, batch, head, row);
}

// scores -> weights p, dscores -> p (dscores - delta), with zeros past the diagonal.
TRIREME_INLINE void weights_and_slopes(const Block& b, const float* logsumexp, const float* delta,
                                       const BackwardMemory& m) {
  for (Index r = 0; r < b.rows; ++r) {
    const Index n = b.seen(r);
    float* x = m.scores + r * score_stride;
    float* dx = m.dscores + r * score_stride;
    const Floats shift = all(logsumexp[r] * log2_e), less = all(delta[r]);
    each_seen(n, [&](Index i, auto mask) {
      const Floats p = mask(exp2_of_negative(load(x + i) - shift), all(0));
      store(x + i, p);
      store(dx + i, mask(p * (load(dx + i) - less), all(0)));
    });
    store(x + round_up(n, lanes), all(0));
    store(dx + round_up(n, lanes), all(0));
  }
}

// y = factor x, or y += factor x, for `rows` rows of s.dim elements.
TRIREME_INLINE void unpack(const Sizes& s, const float* x, Index rows, float factor, Write write,
                           float* y) {
  for (Index r = 0; r < rows; ++r) {
    const float* from = x + r * s.stride;
    float* to = y + r * s.qkv_stride;
    if (write == Write::assign)
      for_each_vector(0, s.dim, [=](auto at) { at.store(to, at.load(from) * all(factor)); });
    else
      for_each_vector(0, s.dim,
                      [=](auto at) { at.store(to, fma(at.load(from), all(factor), at.load(to))); });
  }
}

TRIREME_INLINE void backward_rows(const AttentionBackward& p, const Sizes& s,
                                  const BackwardMemory& m, Index batch, Index head, Index row) {
  const Index rows = at_most(row_block, s.sequence - row), token = batch * s.sequence + row;
  const float* queries = floats(p.qkv) + token * s.qkv_stride + head * s.dim;
  const float* y = floats(p.y) + token * s.y_stride + head * s.dim;
  const float* dy = floats(p.dy) + token * s.y_stride + head * s.dim;
  float* dqueries = floats(p.dqkv) + token * s.qkv_stride + head * s.dim;
  pack_rows(queries, s.qkv_stride, rows, s.dim, s.scale * log2_e, m.queries, s.stride, s.padded_dim,
            row_block);
  pack_rows(dy, s.y_stride, rows, s.dim, 1, m.dout, s.stride, s.padded_dim, row_block);
  for (Index r = 0; r < rows; ++r) prefetch<Use::write>(dqueries + r * s.qkv_stride, s.dim);
  float delta[row_block];  // sum over a row of dy y
  for (Index r = 0; r < rows; ++r)
    delta[r] = sum(
        s.dim, [=](auto at) { return at.load(y + r * s.y_stride) * at.load(dy + r * s.y_stride); });
  const float* logsumexp = p.logsumexp + (batch * p.shape.query_heads + head) * s.sequence + row;
  for (Index key = 0; key < row + rows; key += key_block) {
    const Block b = {row, rows, key, at_most(key_block, s.sequence - key)};
    scores_of(s, b, m.queries, m.keys_transposed, m.scores);
    scores_of(s, b, m.dout, m.values_transposed, m.dscores);
    weights_and_slopes(b, logsumexp, delta, m);
    add_weighted_columns(s, b, m.scores, m.dout, m.dvalues);
    add_weighted_columns(s, b, m.dscores, m.queries, m.dkeys);
    add_weighted_rows(s, b, m.dscores, m.keys, m.dqueries);
  }
  unpack(s, m.dqueries, rows, s.scale, p.write, dqueries);
}

void backward(const AttentionBackward& p, Index batch, Index kv_head, std::byte* workspace) {
  const Sizes s(p.shape);
  const BackwardMemory m(s, workspace);
  const Index keys_at = batch * s.sequence * s.qkv_stride + (p.shape.query_heads + kv_head) * s.dim;
  const Index values_at = keys_at + p.shape.kv_heads * s.dim;
  const Index packed = s.packed_rows() / s.stride;
  const float* qkv = floats(p.qkv);
  pack_rows(qkv + keys_at, s.qkv_stride, s.sequence, s.dim, 1, m.keys, s.stride, s.padded_dim,
            packed);
  pack_transposed(qkv + keys_at, s.qkv_stride, s.sequence, s.dim, m.keys_transposed);
  pack_transposed(qkv + values_at, s.qkv_stride, s.sequence, s.dim, m.values_transposed);
  for (float* sums : {m.dkeys, m.dvalues})
    for_each_vector(0, s.packed_rows(), [=](auto at) { at.store(sums, all(0)); });
  for (Index head = kv_head * s.group; head < (kv_head + 1) * s.group; ++head)
    for (Index row = 0; row < s.sequence; row += row_block)
      backward_rows(p, s, m, batch, head, row);
  unpack(s, m.dkeys, s.sequence, ln_2, p.write,
         floats(p.dqkv) + keys_at);  // queries were packed times scale * log2(e)
  unpack(s, m.dvalues, s.sequence, 1, p.write, floats(p.dqkv) + values_at);
}

Index forward_bytes(const AttentionShape& shape) {
  return ForwardMemory(Sizes(shape), nullptr).bytes;
}
Index backward_bytes(const AttentionShape& shape) {
  return BackwardMemory(Sizes(shape), nullptr).bytes;
}

}  // namespace

}  // namespace trireme::kernels::TRIREME_SIMD

namespace trireme::kernels {

const AttentionLoops AttentionLoops::TRIREME_SIMD = {TRIREME_SIMD::forward, TRIREME_SIMD::backward,
                                                     TRIREME_SIMD::forward_bytes,
                                                     TRIREME_SIMD::backward_bytes};

}  // namespace trireme::kernels
