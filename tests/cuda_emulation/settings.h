// Settings of the emulation in the environment, for programs that know nothing of it:
//   EMULATION_SCHEDULE=eager | lazy | ahead:STREAM | random:SEED
//     streams (streams.h)
//   EMULATION_ORDER=forward | reverse | random:SEED
//     threads of a kernel (grid.h)
//   EMULATION_WITHOUT_BARRIER=kernels/cuda/norm.cu:22
//     a barrier that is left out (grid.h)
//   EMULATION_WITHOUT_WAITS=before_urgent | after_urgent | others
//     waits between streams that are left out (cuda_runtime.cpp)
//   EMULATION_ABORT=hangs
//     ncclCommAbort never returns
//   EMULATION_WRONG_SUMS=1
//     NCCL's sums are wrong
//   EMULATION_REFUSED_LAUNCH=1000
//     the kernel launch that fails, counted from the first
//   EMULATION_REPORT=1
//     how often the host has waited, and for how much, at the end
//   EMULATION_STAGED_KB=64
//     copies from pageable memory of more hold the host (cuda_runtime.cpp)
//   EMULATION_CAPABILITY=90, EMULATION_DRIVER=13000
//     what the GPUs are, and the newest CUDA of the driver
//   EMULATION_DEVICES=8 | own, EMULATION_DEVICE_MB=4096
//     how many GPUs a rank sees (own: one, that no other one sees), and their memory
//   EMULATION_SHARED_KB=227
//     the most shared memory of a block
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace trireme::emulation {

/// "random:7": a word and, behind a colon, a number.
struct Setting {
  std::string word;
  std::uint64_t number;
};

inline Setting parse_setting(const std::string& text, std::uint64_t number_if_none) {
  const auto colon = text.find(':');
  if (colon == std::string::npos) return {text, number_if_none};
  return {text.substr(0, colon), std::strtoull(text.c_str() + colon + 1, nullptr, 10)};
}

/// The variable `name`, or `otherwise` when it is not set.
inline std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

/// The most that a block of this device may have.
inline std::size_t most_shared_bytes() {
  return std::strtoull(setting("EMULATION_SHARED_KB", "227").c_str(), nullptr, 10) << 10;
}

[[noreturn]] inline void refuse_setting(const std::string& text, const char* allowed) {
  std::fprintf(stderr, "cuda emulation: '%s' is none of %s\n", text.c_str(), allowed);
  std::abort();
}

}  // namespace trireme::emulation
