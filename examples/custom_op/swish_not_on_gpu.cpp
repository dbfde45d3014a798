// In place of swish_on_gpu.cu where there is no CUDA compiler.
#include <stdexcept>

#include "swish_on_gpu.h"

namespace {

[[noreturn]] void refuse() {
  throw std::runtime_error("swish was built without a CUDA compiler: use --device cpu");
}

}  // namespace

void swish_forward_on_gpu(void*, const float*, float*, std::int64_t, float) { refuse(); }
void swish_backward_on_gpu(void*, const float*, const float*, float*, std::int64_t, float) {
  refuse();
}
