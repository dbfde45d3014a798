// Region: which elements of its root's memory a view touches. Views of one root are compared as
// boxes in the finest mixed-radix coordinates that all of them share; where there are none, the
// answers are the cautious ones.
#pragma once

#include <array>
#include <vector>

#include "trireme/graph/spec.h"

namespace trireme::graph {

struct Region {
  struct Dim {
    Index extent, stride;
  };
  /// In place: a plan has very many regions.
  class Dims {
   public:
    const Dim* begin() const { return all_.data(); }
    const Dim* end() const { return all_.data() + size_; }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    const Dim& operator[](std::size_t i) const { return all_[i]; }
    Dim& back() { return all_[size_ - 1]; }
    void push_back(const Dim& dim) { all_[size_++] = dim; }
    /// Behind those of larger and of equal strides.
    void insert(const Dim& dim);

   private:
    std::array<Dim, Shape::max_dims> all_{};
    std::size_t size_ = 0;
  };
  Index first = 0;
  Dims dims;  // strides descend; neighbours that lie packed are one
  Index count() const;
};

/// Elements from the first to the last one that a spec touches: what a buffer for it needs.
Index span(const Spec& spec);

/// Throws: Error when two elements of the view are the same memory (a broadcast).
Region region_of(const Spec& spec, Index first);

/// False also when it cannot be determined.
bool disjoint(const Region& a, const Region& b);

enum class WriteMode { assign, add };

/// How gradients are gathered in one root (rule 4): the first write to a box assigns, a box already
/// covered adds; where the writes do not tile the root, it is zeroed first and all of them add.
struct Gathering {
  bool zero_first = false;
  std::vector<WriteMode> modes;  // per write, in order
};
Gathering gather(const Region& root, const std::vector<Region>& writes);

}  // namespace trireme::graph
