// What kernels get for the device's mathematical functions, when they run on the host.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

// The device's functions are not the host's: each result is off by up to as many units in the last
// place as the CUDA C++ Programming Guide admits (Mathematical Functions, single precision), by
// chance but always alike, so that tolerances of tests hold on hardware, too. In
// trireme::kernels::gpu, where kernels are, so that they hide the host's functions.
namespace trireme::emulation {
inline float off_by_units(float value, int most) {
  if (!std::isnormal(value)) return value;
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  const std::uint32_t chance = (bits ^ bits >> 15) * 2654435761u >> 8;
  bits += chance % static_cast<std::uint32_t>(2 * most + 1) - static_cast<std::uint32_t>(most);
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}
}  // namespace trireme::emulation
namespace trireme::kernels::gpu {
inline float expf(float x) { return x == 0 ? 1.0f : emulation::off_by_units(std::exp(x), 2); }
inline float exp2f(float x) { return x == 0 ? 1.0f : emulation::off_by_units(std::exp2(x), 2); }
inline float logf(float x) { return emulation::off_by_units(std::log(x), 1); }
inline float erfcf(float x) { return x == 0 ? 1.0f : emulation::off_by_units(std::erfc(x), 4); }
}  // namespace trireme::kernels::gpu
inline float rsqrtf(float x) { return trireme::emulation::off_by_units(1.0f / std::sqrt(x), 2); }
inline float __fdividef(float a, float b) { return trireme::emulation::off_by_units(a / b, 2); }
