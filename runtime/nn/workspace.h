// How much workspace a kernel will want, asked while planning, when no device is open yet. The
// CPU's answer depends on shapes only: its kernels cut their work in parts whose number the threads
// do not change.
#pragma once

#include "trireme/core/device.h"
#include "trireme/kernels/device.h"
#include "trireme/kernels/kernels.h"

namespace trireme::nn_detail {

/// ask(kernels, device) -> bytes
template <class F>
Index workspace_bytes(F&& ask) {
  const std::unique_ptr<Device> host = open_cpu();
  return ask(host->kernels(), *host);
}

inline Index norm_workspace_bytes(Index rows, Index channels) {
  return workspace_bytes([&](const Kernels& kernels, Device& device) {
    return kernels.norm.backward_workspace_bytes(device, rows, channels);
  });
}

}  // namespace trireme::nn_detail
