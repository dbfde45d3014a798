// The GPU of the kernel tests: the emulated one.
#include "kernels/cuda/cuda_device.h"
#include "tests/cuda_emulation/grid.h"
#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {

std::unique_ptr<Device> open_gpu() { return std::make_unique<kernels::CudaDevice>(0); }

void in_every_order(const std::function<void()>& f) {
  using emulation::Order;
  emulation::GridOptions& options = emulation::Grid::instance().options;
  for (const emulation::GridOptions& order : {emulation::GridOptions{Order::forward, 1},
                                              {Order::reverse, 1},
                                              {Order::random, 1},
                                              {Order::random, 2}}) {
    options = order;
    f();
  }
  options = {};
}

}  // namespace trireme::test
