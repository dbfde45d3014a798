// What precedes the report in the output of trireme_preflight.
#pragma once

#include <string_view>

namespace trireme::preflight {

inline constexpr std::string_view mark = "trireme-preflight-report ";

}  // namespace trireme::preflight
