#include "tests/gpu/large/attention_reference.h"

namespace trireme::test {
namespace {

double dot(const Floats& a, Index a_at, const Floats& b, Index b_at, Index count) {
  double sum = 0;
  for (Index i = 0; i < count; ++i)
    sum += static_cast<double>(a[static_cast<std::size_t>(a_at + i)]) *
           static_cast<double>(b[static_cast<std::size_t>(b_at + i)]);
  return sum;
}

}  // namespace

double AttentionReference::score(const HeadOfRow& query, const HeadOfRow& key) const {
  return dot(qkv, query_at(query), qkv, key_at(key), shape.head_dim) /
         std::sqrt(static_cast<double>(shape.head_dim));
}

double AttentionReference::weight(const HeadOfRow& query, const HeadOfRow& key) const {
  const Index sum = (query.batch * shape.query_heads + query.head) * shape.sequence + query.row;
  return std::exp(score(query, key) -
                  static_cast<double>(logsumexp[static_cast<std::size_t>(sum)]));
}

double AttentionReference::slope(const HeadOfRow& query, const HeadOfRow& key) const {
  const Index out = output_at(query), n = shape.head_dim;
  return weight(query, key) * (dot(dy, out, qkv, value_at(key), n) - dot(dy, out, y, out, n)) /
         std::sqrt(static_cast<double>(n));
}

void AttentionReference::add(Doubles& to, double factor, const Floats& from, Index begin) const {
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] += factor * static_cast<double>(from[static_cast<std::size_t>(begin) + i]);
}

Doubles AttentionReference::output(const HeadOfRow& at) const {
  Doubles sum(static_cast<std::size_t>(shape.head_dim));
  double total = 0;
  for (Index row = 0; row <= at.row; ++row) {
    const HeadOfRow key = key_of(at, row);
    const double e = std::exp(score(at, key));  // scores of tests are small
    total += e;
    add(sum, e, qkv, value_at(key));
  }
  for (double& x : sum) x /= total;
  return sum;
}

Doubles AttentionReference::query_gradient(const HeadOfRow& at) const {
  Doubles sum(static_cast<std::size_t>(shape.head_dim));
  for (Index row = 0; row <= at.row; ++row) {
    const HeadOfRow key = key_of(at, row);
    add(sum, slope(at, key), qkv, key_at(key));
  }
  return sum;
}

template <class Term>
Doubles AttentionReference::over_queries(const HeadOfRow& key, const Term& term) const {
  Doubles sum(static_cast<std::size_t>(shape.head_dim));
  const Index group = shape.query_heads / shape.kv_heads;
  for (Index row = key.row; row < shape.sequence; ++row)
    for (Index head = key.head * group; head < (key.head + 1) * group; ++head)
      term(HeadOfRow{key.batch, row, head}, sum);
  return sum;
}

Doubles AttentionReference::key_gradient(const HeadOfRow& at) const {
  return over_queries(at, [&](const HeadOfRow& query, Doubles& sum) {
    add(sum, slope(query, at), qkv, query_at(query));
  });
}

Doubles AttentionReference::value_gradient(const HeadOfRow& at) const {
  return over_queries(at, [&](const HeadOfRow& query, Doubles& sum) {
    add(sum, weight(query, at), dy, output_at(query));
  });
}

}  // namespace trireme::test
