// How every system call of this module is checked: EINTR repeats it, an error names the path, the
// call and the reason.
#pragma once

#include <cerrno>
#include <cstring>
#include <source_location>
#include <string>

#include "trireme/core/error.h"

namespace trireme::store {

template <class Call>
auto repeat_interrupted(Call&& call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

[[noreturn]] inline void fail_call(const std::string& path, const char* call,
                                   std::source_location where = std::source_location::current()) {
  throw Error(str(path, ": ", call, ": ", std::strerror(errno)), where);
}

/// Returns `result` when it is not negative.
template <class Result>
Result check_call(Result result, const std::string& path, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (result < 0) fail_call(path, call, where);
  return result;
}

}  // namespace trireme::store
