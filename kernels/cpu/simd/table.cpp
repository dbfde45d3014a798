// The loops of this instruction set, together.
#include "kernels/cpu/loops.h"

namespace trireme::TRIREME_SIMD {

extern const ElementwiseLoops elementwise_loops;
extern const ActivationLoops activation_loops;
extern const NormLoops norm_loops;
extern const RotaryLoops rotary_loops;
extern const CrossEntropyLoops cross_entropy_loops;
extern const OptimizerLoops optimizer_loops;
extern const AttentionLoops attention_loops;
extern const ConversionLoops conversion_loops;
extern const MathLoops math_loops;
double multiply_add(Index repetitions, double* operations);

extern const Loops loops;
const Loops loops = {elementwise_loops,   activation_loops, norm_loops,      rotary_loops,
                     cross_entropy_loops, optimizer_loops,  attention_loops, conversion_loops,
                     math_loops,          multiply_add};

}  // namespace trireme::TRIREME_SIMD
