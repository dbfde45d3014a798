// The inner loops of the CPU kernels: pure functions over a range, one table per instruction set
// (cpu/simd/*.cpp). They check nothing and allocate nothing; the launchers beside this file check
// shapes and share the ranges out to threads. Every result depends on the arguments only, never on
// how a range was cut.
#pragma once

#include "trireme/core/bf16.h"
#include "trireme/kernels/device.h"
#include "trireme/kernels/kernels.h"

namespace trireme {

struct ElementwiseLoops {
  void (*add)(const Addition&, Index begin, Index end);
  void (*bias_add)(const BiasAdd&, Index begin_row, Index end_row);
  void (*bias_backward)(const BiasBackward&, Index begin_channel, Index end_channel);
  void (*dropout)(const Dropout&, Index begin, Index end);
  double (*squared_error)(const SquaredErrorForward&, Index begin, Index end);
  void (*squared_error_backward)(const SquaredErrorBackward&, Index begin, Index end);
  /// to += from, elements [begin, end); `from` is stored as `dtype`.
  void (*accumulate)(float* to, const void* from, DType dtype, Index begin, Index end);
  bool (*finite)(const float* x, Index begin, Index end);
};

struct ActivationLoops {
  void (*forward)(const ActivationForward&, Index begin, Index end);
  void (*backward)(const ActivationBackward&, Index begin, Index end);
  void (*swiglu_forward)(const SwigluForward&, Index begin_row, Index end_row);
  void (*swiglu_backward)(const SwigluBackward&, Index begin_row, Index end_row);
};

struct NormLoops {
  void (*forward)(const NormForward&, Index begin_row, Index end_row);
  /// Rows of dx, and the sums over these rows for dweight and dbias, assigned to `dweight` and
  /// `dbias` (either null).
  void (*backward)(const NormBackward&, float* dweight, float* dbias, Index begin_row,
                   Index end_row);
};

struct RotaryLoops {
  void (*run)(const Rotary&, Index begin_row, Index end_row);
};

struct CrossEntropyLoops {
  void (*partial)(const CrossEntropyPartial&, Index begin_row, Index end_row);
  void (*backward)(const CrossEntropyBackward&, Index begin_row, Index end_row);
};

struct OptimizerLoops {
  /// Elements [begin, end) of a range.
  void (*adamw)(const AdamW&, const UpdateRange&, Index begin, Index end);
  void (*sgd)(const Sgd&, const UpdateRange&, Index begin, Index end);
  double (*sum_of_squares)(const float* x, Index begin, Index end);
};

/// One (batch, kv head) of attention. `workspace` holds the bytes that the functions below ask for.
struct AttentionLoops {
  void (*forward)(const AttentionForward&, Index batch, Index kv_head, std::byte* workspace);
  void (*backward)(const AttentionBackward&, Index batch, Index kv_head, std::byte* workspace);
  Index (*forward_bytes)(const AttentionShape&);
  Index (*backward_bytes)(const AttentionShape&);
};

/// Arrays of bf16 to floats and back, to nearest, ties to even: for launchers whose loops are fp32.
struct ConversionLoops {
  void (*widen)(const Bf16* x, float* y, Index count);
  void (*narrow)(const float* x, Bf16* y, Index count);
};

/// For tests of accuracy: y = f(x).
struct MathLoops {
  void (*exp)(const float* x, float* y, Index count);
  void (*sigmoid)(const float* x, float* y, Index count);
  void (*normal_below)(const float* x, float* y, Index count);
};

struct Loops {
  const ElementwiseLoops& elementwise;
  const ActivationLoops& activation;
  const NormLoops& norm;
  const RotaryLoops& rotary;
  const CrossEntropyLoops& cross_entropy;
  const OptimizerLoops& optimizer;
  const AttentionLoops& attention;
  const ConversionLoops& conversion;

  const MathLoops& math;
  double (*multiply_add)(Index repetitions, double* operations);  // for measure_peak_flops
};

/// The set that `best` stands for in this environment on this machine; any other set itself.
InstructionSet resolve(InstructionSet set);
/// The loops for `set`. Throws: Error when they are not available here.
const Loops& loops_for(InstructionSet set);

}  // namespace trireme
