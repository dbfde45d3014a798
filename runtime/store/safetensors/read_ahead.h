// ReadAhead: whether reads are announced to the kernel (POSIX_FADV_WILLNEED), or it reads ahead by
// itself. Which is faster depends on the machine. Announced reads wait in a deep queue, but come
// in small pages: disks that have few requests at a time, as those of virtual machines, take up to
// 1.5 times as long. The kernel's own come in large pages, which a virtual machine that lends free
// memory to its host must get back first, and then take 2 to 3 times as long.
#pragma once

#include <array>

#include "trireme/core/dtype.h"

namespace trireme::safetensors {

class ReadAhead {
 public:
  /// Of the reads that follow.
  bool announces() const { return announces_; }
  /// After each read, in the order of the file. `seconds`: of a clock that does not go back.
  void has_read(Index bytes, double seconds);

  static constexpr Index settled_bytes = Index{40} << 20;  // until reads are of the new kind alone
  static constexpr Index measured_bytes = Index{64} << 20;
  static constexpr Index kept_bytes = Index{1} << 30;  // until the other kind is tried again

 private:
  enum class Phase { settle, measure, keep };

  void begin(Phase phase, double seconds);
  void end_measure();
  double& cost_of(bool announced) { return cost_[announced ? 1 : 0]; }

  bool announces_ = true, is_chosen_ = false;
  Phase phase_ = Phase::measure;  // the first read begins it
  Index bytes_ = 0;               // of this phase
  double begin_ = 0;
  std::array<double, 2> cost_ = {-1, -1};  // seconds a byte; less than 0: not known
};

}  // namespace trireme::safetensors
