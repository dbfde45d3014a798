// Launchers of the optimizer kernels.
#include "kernels/cpu/cpu_device.h"

namespace trireme {

namespace {

void adamw(Stream& stream, const AdamW& p) {
  require(p.count >= 0, "AdamW of ", p.count, " parameters");
  require(p.bias_correction1 > 0 && p.bias_correction2 > 0, "AdamW's bias corrections are ",
          p.bias_correction1, " and ", p.bias_correction2, ": steps count from 1");
  parallel_for(stream, p.count, grain_elements,
               [&](Index begin, Index end) { loops_of(stream).optimizer.adamw(p, begin, end); });
}

void sgd(Stream& stream, const Sgd& p) {
  require(p.count >= 0, "SGD of ", p.count, " parameters");
  require(p.momentum == 0 || p.momentum_buffer != nullptr, "SGD with momentum ", p.momentum,
          " needs its buffer");
  parallel_for(stream, p.count, grain_elements,
               [&](Index begin, Index end) { loops_of(stream).optimizer.sgd(p, begin, end); });
}

void add_sum_of_squares(Stream& stream, const float* x, Index count, double* sum) {
  require(count >= 0, "sum of squares of ", count, " elements");
  *sum += sum_in_parts(stream, count, [&](Index begin, Index end) {
    return loops_of(stream).optimizer.sum_of_squares(x, begin, end);
  });
}

}  // namespace

const OptimizerKernels cpu_optimizer_kernels = {adamw, sgd, add_sum_of_squares};

}  // namespace trireme
