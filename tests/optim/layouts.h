// The layouts that tests of this module go through.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/core/mesh_shape.h"

namespace trireme::testing {

/// The layouts that tests go through: (data, pipeline, tensor, chunks).
struct Layout {
  int data, pipeline, tensor, chunks;
  MeshShape shape() const { return MeshShape(data, pipeline, tensor); }
};
inline std::vector<Layout> layouts() {
  return {{1, 1, 1, 1}, {2, 1, 1, 1}, {1, 1, 2, 1}, {1, 2, 1, 1}, {1, 2, 1, 2},
          {1, 1, 4, 1}, {1, 4, 1, 1}, {2, 2, 2, 1}, {2, 2, 2, 2}, {4, 1, 2, 2}};
}
/// Those with everything at once.
inline std::vector<Layout> mixed_layouts() { return {{2, 2, 2, 1}, {2, 2, 2, 2}, {4, 1, 2, 2}}; }
inline std::string describe(const Layout& l) {
  return str("data ", l.data, " pipeline ", l.pipeline, " tensor ", l.tensor, " chunks ", l.chunks);
}

}  // namespace trireme::testing
