// How a system call is checked. An argument of `require` that reads errno may be evaluated before
// the call that sets it (GCC evaluates from the right), so `require_call` reads it.
//
// Not installed; modules above may include it.
#pragma once

#include <cerrno>
#include <cstring>

#include "trireme/core/error.h"

namespace trireme {

/// Throws: Error "PARTS: REASON" when a call that sets errno did not succeed; REASON is that of
/// errno once all arguments, hence the call among them, have been evaluated.
template <class... Parts>
void require_call(Condition succeeded, const Parts&... parts) {
  if (succeeded.holds) [[likely]]
    return;
  const int reason = errno;
  require(succeeded, parts..., ": ", std::strerror(reason));
}

}  // namespace trireme
