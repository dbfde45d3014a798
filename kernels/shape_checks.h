// What every device checks of the shapes it is given, with the same messages.
#pragma once

#include "trireme/core/error.h"
#include "trireme/kernels/attention.h"
#include "trireme/kernels/gemm.h"

namespace trireme {

/// Throws: Error naming the size that does not fit.
inline void check_gemm(const Gemm& p) {
  require(p.m >= 0 && p.n >= 0 && p.k >= 0, "matrix product of m ", p.m, ", n ", p.n, ", k ", p.k);
  const Index a_columns = p.transpose_a == Transpose::no ? p.k : p.m;
  const Index b_columns = p.transpose_b == Transpose::no ? p.n : p.k;
  require(p.lda >= a_columns, "lda ", p.lda, " is less than the ", a_columns, " columns of a");
  require(p.ldb >= b_columns, "ldb ", p.ldb, " is less than the ", b_columns, " columns of b");
  require(p.ldc >= p.n, "ldc ", p.ldc, " is less than the ", p.n, " columns of c");
  require(p.bias == nullptr || p.write == Write::assign,
          "a bias goes with an assigned product only");
}

inline void check_attention(const AttentionShape& s) {
  require(s.batch >= 0 && s.sequence >= 1 && s.head_dim >= 1, "attention over batch ", s.batch,
          ", sequence ", s.sequence, ", head_dim ", s.head_dim);
  require(s.kv_heads >= 1 && s.query_heads >= s.kv_heads && s.query_heads % s.kv_heads == 0,
          s.query_heads, " query heads cannot share ", s.kv_heads, " key and value heads evenly");
}

}  // namespace trireme
