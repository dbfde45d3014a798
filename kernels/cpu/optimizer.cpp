// Launchers of the optimizer kernels: range by range, each divided among the threads.
#include "kernels/optimizer.h"

#include "kernels/cpu/cpu_device.h"

namespace trireme::kernels {

namespace {

/// loop(p, range, begin, end) over the elements of every range.
template <class Update>
void update(Stream& stream, const Update& p,
            void (*loop)(const Update&, const UpdateRange&, Index, Index)) {
  check_optimizer(p);
  if (p.decision->skip != 0) return;
  for (Index i = 0; i < p.list.count; ++i)
    parallel_for(stream, p.list.ranges[i].count, grain_elements,
                 [&](Index begin, Index end) { loop(p, p.list.ranges[i], begin, end); });
}

void adamw(Stream& stream, const AdamW& p) {
  update(stream, p, loops_of<OptimizerLoops>(stream).adamw);
}

void sgd(Stream& stream, const Sgd& p) { update(stream, p, loops_of<OptimizerLoops>(stream).sgd); }

void sum_of_squares(Stream& stream, const SumOfSquares& p) {
  check_optimizer(p);
  double sum = 0;
  for (Index i = 0; i < p.list.count; ++i) {
    const float* x = p.x + p.list.ranges[i].begin;
    sum += sum_in_parts(stream, p.list.ranges[i].count, [&](Index begin, Index end) {
      return loops_of<OptimizerLoops>(stream).sum_of_squares(x, begin, end);
    });
  }
  *p.sum = sum;
}

void decide(Stream&, const Decide& p) { *p.decision = decide_step(*p.sum, p.max_norm); }

}  // namespace

const OptimizerKernels& cpu_table(const OptimizerKernels*) {
  static constexpr OptimizerKernels kernels = {adamw, sgd, sum_of_squares, decide};
  return kernels;
}

}  // namespace trireme::kernels
