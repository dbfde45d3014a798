// Launchers of the norms. Parameter gradients: a number of slabs of rows that depends on the rows
// only each sum into the workspace, and the slabs' sums are added in their order.
#include "kernels/norm.h"

#include "kernels/cpu/cpu_device.h"
#include "kernels/workspace.h"

namespace trireme::kernels {

namespace {

constexpr Index most_slabs = 16;
Index slabs_of(Index rows) { return std::clamp<Index>(rows / 32, 1, most_slabs); }

void forward(Stream& stream, const NormForward& p) {
  check_norm(p);
  parallel_for(stream, p.rows, grain_rows(p.channels),
               [&](Index begin, Index end) { loops_of<NormLoops>(stream).forward(p, begin, end); });
}

void backward(Stream& stream, const NormBackward& p) {
  check_norm(p);
  const Index slabs = slabs_of(p.rows), n = p.channels;
  float* weights = p.dweight == nullptr ? nullptr : static_cast<float*>(p.workspace);
  float* biases = p.dbias == nullptr ? nullptr : static_cast<float*>(p.workspace) + slabs * n;
  const auto& loops = loops_of<NormLoops>(stream);
  parallel_for(stream, slabs, 1, [&](Index begin, Index end) {
    for (Index slab = begin; slab < end; ++slab)
      loops.backward(p, weights == nullptr ? nullptr : weights + slab * n,
                     biases == nullptr ? nullptr : biases + slab * n, p.rows * slab / slabs,
                     p.rows * (slab + 1) / slabs);
  });
  const auto accumulate = loops_of<ArrayLoops>(stream).accumulate;
  for (Index slab = 0; slab < slabs; ++slab) {
    if (weights != nullptr) accumulate(p.dweight, weights + slab * n, DType::f32, 0, n);
    if (biases != nullptr) accumulate(p.dbias, biases + slab * n, DType::f32, 0, n);
  }
}

}  // namespace

Index cpu_norm_backward_bytes(Index rows, Index channels) {
  return slabs_of(rows) * 2 * channels * static_cast<Index>(sizeof(float));
}

const NormKernels& cpu_table(const NormKernels*) {
  static constexpr NormKernels kernels = {forward, backward};
  return kernels;
}

}  // namespace trireme::kernels
