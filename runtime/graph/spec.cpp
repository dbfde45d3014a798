#include "trireme/graph/spec.h"

namespace trireme {

bool Spec::packed() const {
  Index stride = 1;
  for (int d = shape.dims() - 1; d >= 0; --d) {
    if (shape[d] != 1 && strides[d] != stride) return false;
    stride *= shape[d];
  }
  return true;
}

Spec Spec::sliced(int dim, Index begin, Index end) const {
  require(0 <= dim && dim < shape.dims(), "slice along dim ", dim, " of ", *this, ", which has ",
          shape.dims(), " dims");
  require(0 <= begin && begin <= end && end <= shape[dim], "slice [", begin, ", ", end,
          ") along dim ", dim, " does not lie in ", *this);
  Spec out = *this;
  out.shape[dim] = end - begin;
  return out;
}

Spec Spec::reshaped(Shape to) const {
  require(packed(), "reshape of the strided ", *this, " to ", to,
          ": make it packed with contiguous() first");
  require(to.count() == shape.count(), "reshape of ", *this, " (", shape.count(), " elements) to ",
          to, " (", to.count(), " elements)");
  return Spec(to, dtype);
}

std::ostream& operator<<(std::ostream& out, const Spec& spec) {
  out << spec.dtype << ' ' << spec.shape;
  return spec.packed() ? out : out << " strided " << spec.strides;
}

}  // namespace trireme
