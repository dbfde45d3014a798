#include "runtime/store/safetensors/element.h"

#if defined(TRIREME_SIMD_X86)
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "trireme/core/bf16.h"
#include "trireme/core/error.h"
#include "trireme/core/named_values.h"

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

// Without a branch, and inside this file, so that compilers convert several at a time.
float widen_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
  const auto subnormal = std::bit_cast<std::uint32_t>(  // or zero
      static_cast<float>(static_cast<std::int32_t>(rest)) * subnormal_unit);
  const std::uint32_t normal =
      (rest << mantissa_shift) + (rest < 0x7c00u ? exponent_shift : 2 * exponent_shift);
  const std::uint32_t chosen = rest < 0x0400u ? ~0u : 0u;
  return std::bit_cast<float>(sign | (subnormal & chosen) | (normal & ~chosen));
}

#if defined(TRIREME_SIMD_X86)
/// For processors with F16C. Returns: how many it has converted; fewer than 8 are left.
__attribute__((target("avx,f16c"))) Index widen_by_eights(const std::byte* from, Index count,
                                                          float* to) {
  Index done = 0;
  for (; done + 8 <= count; done += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * done));
    _mm256_storeu_ps(to + done, _mm256_cvtph_ps(halves));
  }
  return done;
}
#endif

void widen_halves(const void* from, Index count, float* to) {
  Index done = 0;
#if defined(TRIREME_SIMD_X86)
  if (__builtin_cpu_supports("avx2"))  // they all have F16C, which clang cannot ask for
    done = widen_by_eights(static_cast<const std::byte*>(from), count, to);
#endif
  widen<std::uint16_t>(static_cast<const std::byte*>(from) + 2 * done, count - done, to + done,
                       widen_half);
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
    case Element::f64:
      return "f64";
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
    case Element::f64:
      return "F64";
  }
  return "";
}

std::optional<Element> parse_element(std::string_view text) {
  for (const auto& [word, element] : named_values<Element>())
    if (text == name_in_file(element)) return element;
  return std::nullopt;
}

std::string listed_elements() {
  const auto all = named_values<Element>();
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i)
    text += str(i == 0 ? "" : i + 1 == all.size() ? " and " : ", ", name_in_file(all[i].second));
  return text;
}

Index size_bytes(Element element) {
  switch (element) {
    case Element::f32:
      return 4;
    case Element::bf16:
    case Element::f16:
      return 2;
    case Element::f64:
      return 8;
  }
  throw Error(str("no element type ", static_cast<int>(element)));
}

float half_to_float(std::uint16_t half) { return widen_half(half); }

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
      return widen_halves(from, count, to);
    case Element::f64:
      return widen<double>(from, count, to, [](double x) { return static_cast<float>(x); });
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
    case Element::f64:
      return narrow(
          from, count, to, [](float x) { return static_cast<double>(x); },
          [](double x) { return static_cast<float>(x); });
  }
  throw Error(str("no element type ", static_cast<int>(element)));
}

Index first_not_finite(const float* values, Index count) {
  constexpr std::uint32_t exponent = 0x7f800000u;
  const auto is_bad = [](float value) {
    return (std::bit_cast<std::uint32_t>(value) & exponent) == exponent;
  };
  bool any = false;
  for (Index i = 0; i < count; ++i) any |= is_bad(values[i]);  // by vectors
  return any ? std::find_if(values, values + count, is_bad) - values : -1;
}

}  // namespace trireme::safetensors
