#include "trireme/core/tensor.h"

namespace trireme {

bool Tensor::packed() const {
  Index stride = 1;
  for (int d = shape.dims() - 1; d >= 0; --d) {
    if (shape[d] != 1 && strides[d] != stride) return false;
    stride *= shape[d];
  }
  return true;
}

}  // namespace trireme
