// Matrix products. Row-major; weights are stored (out, in).
#pragma once

#include <string>

#include "trireme/core/device.h"
#include "trireme/kernels/write.h"

namespace trireme {

enum class Transpose { no, yes };

/// What becomes of product + bias before it is stored. GELU is its tanh form.
enum class Epilogue {
  none,
  gelu,          // gelu_input = product + bias, c = gelu(gelu_input)
  gelu_gradient  // c = product * gelu'(gelu_input); no bias
};

/// c(m, n) = op(a)(m, k) op(b)(k, n), assigned or added. Leading dimensions in elements. Sums are
/// fp32. `dtype`: of a and b; `result`: of c, bias and gelu_input. They go together as (f32, f32),
/// (bf16, bf16) and (bf16, f32). `bias` (n), may be null, is added to every row after the product
/// (assign only). An epilogue goes with an assigned c that is packed, as is `gelu_input` (m, n).
/// `bias_gradient` (m) in fp32, may be null, gets the sums of the rows of op(a): the gradient of a
/// layer's bias, with that of its weight. Then a is packed and transposed, the result fp32, and
/// there is no bias and no epilogue. One GPU kernel does all of it where that is the fastest; other
/// devices take passes of their own for what follows the product. The same call on the same device
/// gives the same bits. On CPUs the order of summation is oneDNN's, which depends on the shape: a
/// row may differ in its last bits when the number of rows does, and one thread from several (two
/// or more agree).
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
  void* workspace = nullptr;  // workspace_bytes(device, *this), aligned to 256
  DType dtype = DType::f32;
  DType result = DType::f32;
};

/// How `prepare` came to its choice.
struct GemmPreparation {
  enum class Source {
    first,  // what the library recommends
    timed,  // the fastest here, stored for all others
    stored  // chosen by another rank, or in another run
  };
  Source source = Source::first;
  std::string
      note;  // for people, when something stood in the way: why a stored choice is not taken
};

/// How a device multiplies bf16: with instructions of its own, or widened to fp32 in the workspace
/// and rounded once at the end.
enum class Bf16Products { native, widened };

struct GemmKernels {
  void (*run)(Stream&, const Gemm&);
  /// Does all that the first of such products would have to do (descriptors, memory), and chooses
  /// how to compute them: by timing, where the device was opened with a cache. Waits for the
  /// stream; reads a, b and, for gelu_gradient, gelu_input, with any content; writes nothing of the
  /// caller's. Products with other pointers, equally aligned, are prepared by the same call. A GPU
  /// also runs it once, with a result of its own. Throws: Error if that, or storing, fails.
  GemmPreparation (*prepare)(Stream&, const Gemm&);
  /// Depends on shape, types and what is asked for (a null bias_gradient or not); memory is not
  /// looked at.
  Index (*workspace_bytes)(Device&, const Gemm&);
  Bf16Products (*bf16_products)(Device&);
  /// Device memory that a stream takes for itself, at its first product at the latest, and keeps;
  /// for plans of memory.
  Index (*stream_bytes)(Device&);
};

}  // namespace trireme
