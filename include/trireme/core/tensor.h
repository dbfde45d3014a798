// Tensor: a non-owning view of memory. The code that planned the memory owns it.
#pragma once

#include "trireme/core/error.h"
#include "trireme/core/shape.h"

namespace trireme {

struct Tensor {
  void* data = nullptr;
  Shape shape;
  Shape strides;  // in elements
  DType dtype = DType::f32;

  Tensor() = default;
  /// A packed tensor over `data`.
  Tensor(void* data_, Shape shape_, DType dtype_ = DType::f32)
      : data(data_), shape(shape_), strides(shape_.packed_strides()), dtype(dtype_) {}

  Index count() const { return shape.count(); }
  Index bytes() const { return count() * size_bytes(dtype); }
  bool packed() const;
  /// The elements as T. Throws: Error when T is not the element type.
  template <class T>
  T* as() const {
    require(DTypeOf<T>::value == dtype, "tensor of ", dtype, " read as ", DTypeOf<T>::value);
    return static_cast<T*>(data);
  }
};

}  // namespace trireme
