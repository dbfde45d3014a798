// The inner loops of the CPU kernels: pure functions over a range. A table of them is compiled once
// for each instruction set (cpu/simd/*.cpp): the static members `portable`, `avx2` and `avx512` of
// its type. Those of a family of kernels are in kernels/<family>.h, the others here. Loops check
// nothing and allocate nothing; the launchers beside this file check shapes and distribute the
// ranges over threads. Every result depends on the arguments only, never on how a range was cut.
#pragma once

#include "trireme/core/bf16.h"
#include "trireme/core/dtype.h"
#include "trireme/kernels/device.h"

namespace trireme::kernels {

/// Arrays of bf16 to floats and back, to nearest, ties to even: for launchers whose loops are fp32.
struct ConversionLoops {
  static const ConversionLoops portable, avx2, avx512;

  void (*widen)(const Bf16* x, float* y, Index count);
  void (*narrow)(const float* x, Bf16* y, Index count);
};

/// For launchers of several families.
struct ArrayLoops {
  static const ArrayLoops portable, avx2, avx512;

  /// to += from, elements [begin, end); `from` is stored as `dtype`.
  void (*accumulate)(float* to, const void* from, DType dtype, Index begin, Index end);
  bool (*finite)(const float* x, Index begin, Index end);
};

/// For tests of accuracy: y = f(x).
struct MathLoops {
  static const MathLoops portable, avx2, avx512;

  void (*exp)(const float* x, float* y, Index count);
  void (*sigmoid)(const float* x, float* y, Index count);
  void (*normal_below)(const float* x, float* y, Index count);
};

/// For measure_peak_flops.
struct PeakLoops {
  static const PeakLoops portable, avx2, avx512;

  double (*multiply_add)(Index repetitions, double* operations);
};

/// The set that `best` means in this environment on this machine; any other set itself. Throws:
/// Error when it is not available here.
InstructionSet resolve(InstructionSet set);

#if defined(__x86_64__)
inline constexpr bool compiled_for_x86 = true;
#else
inline constexpr bool compiled_for_x86 = false;  // the other sets do not exist
#endif

/// The table of `set`, which resolve() returned.
template <class Loops>
const Loops& loops_for(InstructionSet set) {
  if constexpr (compiled_for_x86) {
    if (set == InstructionSet::avx2) return Loops::avx2;
    if (set == InstructionSet::avx512) return Loops::avx512;
  }
  return Loops::portable;
}

}  // namespace trireme::kernels
