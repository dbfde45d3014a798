// Matrix products. Row-major; weights are stored (out, in).
#pragma once

#include <string>

#include "trireme/core/device.h"
#include "trireme/kernels/write.h"

namespace trireme {

enum class Transpose { no, yes };

/// What is applied to product + bias before it is stored. GELU is the tanh form.
enum class Epilogue {
  none,
  gelu,          // gelu_input = product + bias, c = gelu(gelu_input)
  gelu_gradient  // c = product * gelu'(gelu_input); no bias
};

/// c(m, n) = op(a)(m, k) op(b)(k, n), assigned or added. Leading dimensions are in elements. Sums
/// are fp32. `dtype` is the type of a and b, `result` that of c, bias and gelu_input; legal pairs
/// are (f32, f32), (bf16, bf16) and (bf16, f32).
///
/// `bias` (n), may be null, is added to every row after the product (assign only). An epilogue
/// requires an assigned, packed c and a packed `gelu_input` (m, n). `bias_gradient` (m) in fp32,
/// may be null, receives the sums of the rows of op(a): the gradient of a layer's bias, computed
/// with that of its weight. It requires a packed and transposed a, an fp32 result, no bias and no
/// epilogue. One GPU kernel does all of this where that is fastest; otherwise separate passes
/// follow the product.
///
/// The same call on the same device gives the same bits. On CPUs oneDNN chooses the order of
/// summation by shape: the last bits of a row may depend on the number of rows, and on whether one
/// thread or several compute it (two or more agree).
struct Gemm {
  Index m, n, k;
  const void* a;
  Index lda;
  Transpose transpose_a = Transpose::no;
  const void* b;
  Index ldb;
  Transpose transpose_b = Transpose::no;
  void* c;
  Index ldc;
  Write write = Write::assign;
  const void* bias = nullptr;
  Epilogue epilogue = Epilogue::none;
  void* gelu_input = nullptr;
  float* bias_gradient = nullptr;
  Write write_bias_gradient = Write::add;
  void* workspace = nullptr;  // gemm_workspace_bytes(traits, *this), aligned to 256
  DType dtype = DType::f32;
  DType result = DType::f32;
};

/// How `prepare` made its choice.
struct GemmPreparation {
  enum class Source {
    first,  // what the library recommends
    timed,  // the fastest here, stored for all others
    stored  // chosen by another rank, or in another run
  };
  Source source = Source::first;
  std::string note;  // for people: why a stored choice was not used
};

struct GemmKernels {
  void (*run)(Stream&, const Gemm&);
  /// Does the one-time work of such products (descriptors, memory) and chooses how to compute them:
  /// by timing, if the device was opened with a cache. Waits for the stream. Reads a, b and, for
  /// gelu_gradient, gelu_input, whatever they contain; writes to none of the caller's memory. One
  /// call also prepares products with other pointers of the same alignment. A GPU also runs the
  /// product once, into memory of its own. Throws: Error if that run, or storing the choice, fails.
  GemmPreparation (*prepare)(Stream&, const Gemm&);
};

/// Bytes of Gemm::workspace. Depends on shape, types and the requested results (bias_gradient null
/// or not). Reads no memory. Throws: Error for bf16 on a CPU with native bf16 where this machine
/// has none: only oneDNN on such a CPU knows.
Index gemm_workspace_bytes(const DeviceTraits&, const Gemm&);

}  // namespace trireme
