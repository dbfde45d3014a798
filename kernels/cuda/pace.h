// Pace: limits how far the host runs ahead of a stream. A stream holds about a thousand operations.
// The next launch blocks inside the driver, where communication cannot be polled. The host
// therefore waits long before that, in a wait that polls.
#pragma once

#include <array>

#include <cuda_runtime_api.h>

#include "trireme/core/dtype.h"

namespace trireme::kernels {

class CudaDevice;

/// Counts calls, of which each puts something on one stream: a kernel, or the two or three of a
/// product or a collective. At most `marks + 1` times `calls_a_mark` are outstanding: some 700
/// operations at worst; at least `marks - 1` times as many are while the host waits.
class Pace {
 public:
  static constexpr Index calls_a_mark = 64, marks = 4;

  explicit Pace(const CudaDevice& device);
  ~Pace();
  Pace(const Pace&) = delete;
  Pace& operator=(const Pace&) = delete;
  /// Before a call that puts something on `stream`, always the same one. Throws: Error, from the
  /// wait.
  void one_more(cudaStream_t stream);
  Index calls() const { return calls_; }

 private:
  const CudaDevice& device_;
  std::array<cudaEvent_t, marks> marks_{};
  Index calls_ = 0;
};

}  // namespace trireme::kernels
