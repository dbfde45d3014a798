// Launchers of the activations.
#include "kernels/activation.h"

#include "kernels/cpu/cpu_device.h"

namespace trireme::kernels {

namespace {

void forward(Stream& stream, const ActivationForward& p) {
  check_activation(p);
  parallel_for(stream, p.count, grain_calls, [&](Index begin, Index end) {
    loops_of<ActivationLoops>(stream).forward(p, begin, end);
  });
}

void backward(Stream& stream, const ActivationBackward& p) {
  check_activation(p);
  parallel_for(stream, p.count, grain_calls, [&](Index begin, Index end) {
    loops_of<ActivationLoops>(stream).backward(p, begin, end);
  });
}

void swiglu_forward(Stream& stream, const SwigluForward& p) {
  check_activation(p);
  parallel_for(stream, p.rows, grain_rows(p.channels), [&](Index begin, Index end) {
    loops_of<ActivationLoops>(stream).swiglu_forward(p, begin, end);
  });
}

void swiglu_backward(Stream& stream, const SwigluBackward& p) {
  check_activation(p);
  parallel_for(stream, p.rows, grain_rows(p.channels), [&](Index begin, Index end) {
    loops_of<ActivationLoops>(stream).swiglu_backward(p, begin, end);
  });
}

}  // namespace

const ActivationKernels& cpu_table(const ActivationKernels*) {
  static constexpr ActivationKernels kernels = {forward, backward, swiglu_forward, swiglu_backward};
  return kernels;
}

}  // namespace trireme::kernels
