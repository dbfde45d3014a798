#include "tests/virtual_clock/kernels.h"

#include "trireme/kernels/activation.h"
#include "trireme/kernels/arithmetic.h"
#include "trireme/kernels/attention.h"
#include "trireme/kernels/cross_entropy.h"
#include "trireme/kernels/elementwise.h"
#include "trireme/kernels/embedding.h"
#include "trireme/kernels/gemm.h"
#include "trireme/kernels/hash.h"
#include "trireme/kernels/norm.h"
#include "trireme/kernels/optimizer.h"
#include "trireme/kernels/rotary.h"

#include "runtime/optim/optimizer.h"
#include "tests/virtual_clock/device.h"

namespace trireme::virtual_clock {
namespace {

/// Any kernel.
struct Nothing {
  template <class Result, class... Args>
  using Function = Result (*)(Args...);
  template <class Result, class... Args>
  constexpr operator Function<Result, Args...>() const {  // NOLINT(google-explicit-constructor)
    return [](Args...) -> Result { return Result(); };
  }
};
constexpr Nothing no;

VirtualStream& time_of(Stream& stream) { return static_cast<VirtualStream&>(stream); }

template <class Range>
double elements(const DeviceList<Range>& list) {
  double sum = 0;
  for (Index i = 0; i < list.count; ++i) sum += static_cast<double>(list.ranges[i].count);
  return sum;
}

template <class Update>
double bytes_of(const Update& update, OptimizerOptions::Kind kind, double momentum) {
  OptimizerOptions options;
  options.kind = kind;
  options.momentum = momentum;
  const DType compute = update.compute_copy == nullptr ? DType::f32 : DType::bf16;
  return elements(update.list) * update_cost(options, compute).bytes;
}

void adamw(Stream& stream, const AdamW& update) {
  time_of(stream).run(bytes_of(update, OptimizerOptions::Kind::adamw, 0));
}
void sgd(Stream& stream, const Sgd& update) {
  const double momentum = update.momentum_buffer == nullptr ? 0 : 1;
  time_of(stream).run(bytes_of(update, OptimizerOptions::Kind::sgd, momentum));
}
void sum_of_squares(Stream& stream, const SumOfSquares& call) {
  time_of(stream).run(elements(call.list) * size_bytes(DType::f32));
}
void decide(Stream& stream, const Decide&) { time_of(stream).run(0); }

// A kernel more in a family is a missing initialiser here: an error.
constexpr ActivationKernels activation = {no, no, no, no};
constexpr ArithmeticKernels arithmetic = {no, no, no, no, no, no};
constexpr AttentionKernels attention = {no, no};
constexpr CrossEntropyKernels cross_entropy = {no, no, no};
constexpr ElementwiseKernels elementwise = {no, no, no, no, no, no, no};
constexpr EmbeddingKernels embedding = {no, no, no, no};
constexpr GemmKernels gemm = {no, no};
constexpr HashKernels hash = {no};
constexpr NormKernels norm = {no, no};
constexpr OptimizerKernels optimizer = {adamw, sgd, sum_of_squares, decide};
constexpr RotaryKernels rotary = {no};

constexpr Kernels all = {activation, arithmetic, attention, cross_entropy, elementwise, embedding,
                         gemm,       hash,       norm,      optimizer,     rotary};

}  // namespace

const Kernels& virtual_kernels() { return all; }

}  // namespace trireme::virtual_clock
