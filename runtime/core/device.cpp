#include "trireme/core/device.h"

namespace trireme {

const char* name(DeviceKind kind) { return kind == DeviceKind::cpu ? "cpu" : "cuda"; }

}  // namespace trireme
