// What attention must give for one head of one row, in fp64 and by the definition: no blocks, no
// running maximum, and indices of its own.
#pragma once

#include <vector>

#include "trireme/kernels/attention.h"

#include "tests/gpu/large/large.h"

namespace trireme::test {

using Doubles = std::vector<double>;

/// A head of a row: of the queries, or of the keys and values.
struct HeadOfRow {
  Index batch, row, head;
};

/// On the host. `y` and `logsumexp` are what the backward pass is given.
struct AttentionReference {
  AttentionShape shape;
  Floats qkv, dy, y, logsumexp;

  Doubles output(const HeadOfRow& at) const;
  Doubles query_gradient(const HeadOfRow& at) const;
  Doubles key_gradient(const HeadOfRow& at) const;
  Doubles value_gradient(const HeadOfRow& at) const;

  /// Where a head of a row begins, in qkv and in y.
  Index query_at(const HeadOfRow& at) const { return in_qkv(at, 0); }
  Index key_at(const HeadOfRow& at) const { return in_qkv(at, shape.query_heads); }
  Index value_at(const HeadOfRow& at) const {
    return in_qkv(at, shape.query_heads + shape.kv_heads);
  }
  Index output_at(const HeadOfRow& at) const {
    return ((at.batch * shape.sequence + at.row) * shape.query_heads + at.head) * shape.head_dim;
  }

 private:
  Index in_qkv(const HeadOfRow& at, Index first_head) const {
    const Index heads = shape.query_heads + 2 * shape.kv_heads;
    return ((at.batch * shape.sequence + at.row) * heads + first_head + at.head) * shape.head_dim;
  }
  HeadOfRow key_of(const HeadOfRow& query, Index row) const {
    return {query.batch, row, query.head / (shape.query_heads / shape.kv_heads)};
  }
  double score(const HeadOfRow& query, const HeadOfRow& key) const;
  double weight(const HeadOfRow& query, const HeadOfRow& key) const;
  /// The gradient of the score.
  double slope(const HeadOfRow& query, const HeadOfRow& key) const;
  /// to += factor * head_dim elements of `from`, from `begin` on.
  void add(Doubles& to, double factor, const Floats& from, Index begin) const;
  /// The sum over all queries that see the key.
  template <class Term>
  Doubles over_queries(const HeadOfRow& key, const Term& term) const;
};

}  // namespace trireme::test
