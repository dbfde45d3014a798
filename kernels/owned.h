// Objects of C libraries, which a function of the library destroys.
#pragma once

#include <memory>
#include <type_traits>

namespace trireme::kernels {

template <auto destroy>
struct DestroyBy {
  template <class T>
  void operator()(T* object) const {
    destroy(object);
  }
};
/// `Handle`: the library's pointer.
template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, DestroyBy<destroy>>;

}  // namespace trireme::kernels
