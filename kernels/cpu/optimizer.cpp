// Launchers of the optimizer kernels.
#include "kernels/cpu/cpu_device.h"
#include "kernels/shape_checks.h"

namespace trireme {

namespace {

void adamw(Stream& stream, const AdamW& p) {
  check_optimizer(p);
  parallel_for(stream, p.count, grain_elements,
               [&](Index begin, Index end) { loops_of(stream).optimizer.adamw(p, begin, end); });
}

void sgd(Stream& stream, const Sgd& p) {
  check_optimizer(p);
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
