// DeviceScalars: the block of StepScalars on a device.
//
// Not installed; modules above may include it.
#pragma once

#include <memory>

#include "trireme/core/device.h"
#include "trireme/core/step_scalars.h"

namespace trireme {

class DeviceScalars {
 public:
  /// The block holds `first`. Borrows the stream.
  explicit DeviceScalars(Stream& stream, const StepScalars& first = {});
  /// Queues the way of the numbers to the device: what is queued later reads them. Sets
  /// loss_scale_f32.
  void write(StepScalars scalars);
  /// Returns the block, in memory of the device.
  const StepScalars* data() const { return reinterpret_cast<const StepScalars*>(block_.data()); }

 private:
  Stream& stream_;
  Buffer block_, on_host_;
  std::unique_ptr<Event> copied_;
};

}  // namespace trireme
