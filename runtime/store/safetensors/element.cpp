#include "runtime/store/safetensors/element.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "trireme/core/bf16.h"
#include "trireme/core/error.h"

namespace trireme::safetensors {
namespace {

constexpr std::uint32_t sign_bit = 0x8000'0000u, infinity_bits = 0x7f80'0000u;
constexpr int mantissa_shift = 13;                      // f32 has 23 bits, f16 has 10
constexpr std::uint32_t exponent_shift = 112u << 23;    // of bias 127 and bias 15
constexpr std::uint32_t first_normal = 113u << 23;      // 2^-14 as f32
constexpr std::uint32_t first_infinite = 0x477f'f000u;  // 65520 as f32 rounds up to 65536
constexpr float subnormal_unit = 0x1p-24f;

bool becomes_infinite(float x, float rounded) {
  return std::isfinite(x) && !std::isfinite(rounded);
}

template <class Stored, class Convert>
void widen(const void* from, Index count, float* to, Convert&& convert) {
  const auto* bytes = static_cast<const std::byte*>(from);
  for (Index i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, bytes + i * static_cast<Index>(sizeof stored), sizeof stored);
    to[i] = convert(stored);
  }
}

/// `round`(float) gives what is stored; `widened`(stored) is that as a float.
template <class Round, class Widen>
Index narrow(const float* from, Index count, void* to, Round&& round, Widen&& widened) {
  Index first = -1;
  auto* bytes = static_cast<std::byte*>(to);
  for (Index i = count - 1; i >= 0; --i) {
    const auto stored = round(from[i]);
    if (becomes_infinite(from[i], widened(stored))) first = i;
    std::memcpy(bytes + i * static_cast<Index>(sizeof stored), &stored, sizeof stored);
  }
  return first;
}

}  // namespace

const char* name(Element element) {
  switch (element) {
    case Element::f32:
      return "f32";
    case Element::bf16:
      return "bf16";
    case Element::f16:
      return "f16";
  }
  return "";
}

const char* name_in_file(Element element) {
  switch (element) {
    case Element::f32:
      return "F32";
    case Element::bf16:
      return "BF16";
    case Element::f16:
      return "F16";
  }
  return "";
}

std::optional<Element> parse_element(std::string_view text) {
  for (const Element element : {Element::f32, Element::bf16, Element::f16})
    if (text == name_in_file(element)) return element;
  return std::nullopt;
}

Index size_bytes(Element element) { return element == Element::f32 ? 4 : 2; }

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
  if (rest < 0x0400u)  // zero, or subnormal
    return std::bit_cast<float>(
        sign | std::bit_cast<std::uint32_t>(static_cast<float>(rest) * subnormal_unit));
  const std::uint32_t shifted = rest << mantissa_shift;
  const bool finite = rest < 0x7c00u;
  return std::bit_cast<float>(sign | (finite ? shifted + exponent_shift : shifted | infinity_bits));
}

std::uint16_t float_to_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x), rest = bits & ~sign_bit;
  const auto sign = static_cast<std::uint16_t>((bits & sign_bit) >> 16);
  const auto signed_bits = [sign](std::uint32_t half) {
    return static_cast<std::uint16_t>(sign | half);
  };
  if (rest > infinity_bits)
    return signed_bits(0x7e00u | ((rest >> mantissa_shift) & 0x3ffu));  // quiet
  if (rest >= first_infinite) return signed_bits(0x7c00u);
  if (rest < first_normal) {
    const float units = std::bit_cast<float>(rest) / subnormal_unit;
    return signed_bits(static_cast<std::uint32_t>(std::nearbyint(units)));
  }
  const std::uint32_t odd = (rest >> mantissa_shift) & 1u;
  return signed_bits((rest - exponent_shift + 0x0fffu + odd) >> mantissa_shift);
}

void to_f32(Element element, const void* from, Index count, float* to) {
  switch (element) {
    case Element::f32:
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case Element::bf16:
      return widen<Bf16>(from, count, to, [](Bf16 x) { return to_float(x); });
    case Element::f16:
      return widen<std::uint16_t>(from, count, to, half_to_float);
  }
  throw Error(str("no element type ", static_cast<int>(element)));
}

Index from_f32(Element element, const float* from, Index count, void* to) {
  switch (element) {
    case Element::f32:
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
      return -1;
    case Element::bf16:
      return narrow(from, count, to, to_bf16, [](Bf16 x) { return to_float(x); });
    case Element::f16:
      return narrow(from, count, to, float_to_half, half_to_float);
  }
  throw Error(str("no element type ", static_cast<int>(element)));
}

}  // namespace trireme::safetensors
