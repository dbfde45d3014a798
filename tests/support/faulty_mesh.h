// FaultyMesh: a mesh on which a test does something else than the sums of one of its groups:
// mistakes of a layout, planted.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/forwarding_mesh.h"

namespace trireme::test {

/// What happens instead of the n-th fp32 sum of a group; false: nothing, the group sums.
using Instead = std::function<bool(Communicator& real, Elements x, Index n, Stream& stream)>;

class FaultyCommunicator final : public ForwardingCommunicator {
 public:
  FaultyCommunicator(Communicator& real, const Instead& instead)
      : ForwardingCommunicator(real), instead_(instead) {}
  FaultyCommunicator(std::unique_ptr<Communicator> real, const Instead& instead)
      : ForwardingCommunicator(std::move(real)), instead_(instead) {}

  Ticket start_all_reduce(Elements x, Reduction reduction, Stream& stream) override {
    const bool gradient_like = x.dtype == DType::f32 && reduction == Reduction::sum;
    if (gradient_like && instead_ && instead_(real(), x, sums_++, stream)) return {};
    return real().start_all_reduce(x, reduction, stream);
  }

 private:
  Instead instead_;
  Index sums_ = 0;
};

struct Faults {
  Instead on_tensor = {}, on_data = {}, on_ties = {};
};

class FaultyMesh final : public ForwardingMesh {
 public:
  FaultyMesh(Mesh& real, const Faults& faults)
      : ForwardingMesh(real),
        faults_(faults),
        tensor_(real.axis(Axis::tensor), faults.on_tensor),
        data_(real.axis(Axis::data), faults.on_data) {}

  Communicator& axis(Axis axis) override {
    if (axis == Axis::tensor) return tensor_;
    if (axis == Axis::data) return data_;
    return ForwardingMesh::axis(axis);
  }
  std::unique_ptr<Communicator> split(int color, const std::string& name) override {
    std::unique_ptr<Communicator> group = ForwardingMesh::split(color, name);
    if (group == nullptr) return group;
    return std::make_unique<FaultyCommunicator>(std::move(group), faults_.on_ties);
  }

 private:
  Faults faults_;
  FaultyCommunicator tensor_, data_;
};

/// Sums, then doubles elements [begin, end) of what was summed.
inline Instead doubled(Index begin, Index end) {
  return [=](Communicator& real, Elements x, Index, Stream& stream) {
    real.all_reduce(x, Reduction::sum, stream);
    float* data = static_cast<float*>(x.data);
    for (Index i = begin; i < std::min(end, x.count); ++i) data[i] *= 2;
    return true;
  };
}

}  // namespace trireme::test
