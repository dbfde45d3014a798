// A secret of 128 random bits, by which a process shows that it may ask for something.
#pragma once

#include <random>
#include <string>

#include <fmt/format.h>

namespace trireme::supervisor {

/// 32 hexadecimal digits, from the random numbers of the kernel.
inline std::string new_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", random());
  return token;
}

}  // namespace trireme::supervisor
