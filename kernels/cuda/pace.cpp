#include "kernels/cuda/pace.h"

#include "kernels/cuda/cuda_device.h"

namespace trireme::kernels {

Pace::Pace(const CudaDevice& device) : device_(device) {
  for (cudaEvent_t& mark : marks_)
    check(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming), "cudaEventCreate");
}

Pace::~Pace() {
  for (const cudaEvent_t mark : marks_) cudaEventDestroy(mark);
}

void Pace::one_more(cudaStream_t stream) {
  if (++calls_ % calls_a_mark != 0) return;
  const cudaEvent_t mark = marks_[static_cast<std::size_t>(calls_ / calls_a_mark % marks)];
  device_.wait_until_ready([&] { return cudaEventQuery(mark); }, "cudaEventQuery");
  check(cudaEventRecord(mark, stream), "cudaEventRecord");
}

}  // namespace trireme::kernels
