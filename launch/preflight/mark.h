// What trireme_preflight prints for the command that has started it, among what else is printed.
#pragma once

#include <string_view>

namespace trireme::preflight {

/// Before the report, a line.
inline constexpr std::string_view mark = "trireme-preflight-report ";
/// Before "HOST: CHECK", a line, when a check begins.
inline constexpr std::string_view progress_mark = "trireme-preflight-begins ";

}  // namespace trireme::preflight
