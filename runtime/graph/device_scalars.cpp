#include "runtime/graph/device_scalars.h"

#include <cstring>

namespace trireme {

DeviceScalars::DeviceScalars(Stream& stream, const StepScalars& first)
    : stream_(stream),
      block_(stream.device().allocate(sizeof(StepScalars))),
      on_host_(stream.device().allocate_pinned(sizeof(StepScalars))),
      copied_(stream.device().make_event()) {
  write(first);
}

void DeviceScalars::write(StepScalars scalars) {
  scalars.loss_scale_f32 = static_cast<float>(scalars.loss_scale);
  copied_->synchronize();  // on_host_ has been read
  std::memcpy(on_host_.data(), &scalars, sizeof scalars);
  stream_.copy(block_.data(), on_host_.data(), sizeof scalars);
  copied_->record(stream_);
}

}  // namespace trireme
