// Write: whether a kernel assigns its result or adds to what is there.
#pragma once

namespace trireme {

enum class Write { assign, add };

}  // namespace trireme
