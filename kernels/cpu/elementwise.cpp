// Launchers of the elementwise kernels: they check arguments and divide the range among threads.
#include "kernels/elementwise.h"

#include <array>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/strided.h"

namespace trireme::kernels {

namespace {

void add(Stream& stream, const Addition& p) {
  check_elementwise(p);
  parallel_for(stream, p.count, grain_elements, [&](Index begin, Index end) {
    loops_of<ElementwiseLoops>(stream).add(p, begin, end);
  });
}

void bias_add(Stream& stream, const BiasAdd& p) {
  check_elementwise(p);
  parallel_for(stream, p.rows, grain_rows(p.channels), [&](Index begin, Index end) {
    loops_of<ElementwiseLoops>(stream).bias_add(p, begin, end);
  });
}

void bias_backward(Stream& stream, const BiasBackward& p) {
  check_elementwise(p);
  parallel_for(stream, p.channels, std::max<Index>(16, grain_rows(p.rows)),
               [&](Index begin, Index end) {
                 loops_of<ElementwiseLoops>(stream).bias_backward(p, begin, end);
               });
}

void dropout(Stream& stream, const Dropout& p) {
  check_elementwise(p);
  parallel_for(stream, p.count, grain_elements, [&](Index begin, Index end) {
    loops_of<ElementwiseLoops>(stream).dropout(p, begin, end);
  });
}

void squared_error_forward(Stream& stream, const SquaredErrorForward& p) {
  check_elementwise(p);
  *p.loss = sum_in_parts(stream, p.count, [&](Index begin, Index end) {
    return loops_of<ElementwiseLoops>(stream).squared_error(p, begin, end);
  });
}

void squared_error_backward(Stream& stream, const SquaredErrorBackward& p) {
  check_elementwise(p);
  parallel_for(stream, p.count, grain_elements, [&](Index begin, Index end) {
    loops_of<ElementwiseLoops>(stream).squared_error_backward(p, begin, end);
  });
}

}  // namespace

const ElementwiseKernels& cpu_table(const ElementwiseKernels*) {
  static constexpr ElementwiseKernels kernels = {
      add,         bias_add, bias_backward, dropout, squared_error_forward, squared_error_backward,
      copy_strided};
  return kernels;
}

}  // namespace trireme::kernels
