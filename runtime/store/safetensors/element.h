// Element: the types of floating-point numbers that safetensors files hold and trireme reads, and
// their conversion from and to f32. Files with f64 are read and never written.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/core/dtype.h"

namespace trireme::safetensors {

enum class Element { f32, bf16, f16, f64 };

/// "f32", as on a command line.
const char* name(Element element);
/// "F32", as in a file.
const char* name_in_file(Element element);
/// Parses a name in a file; returns nothing for a type that is none of these.
std::optional<Element> parse_element(std::string_view name_in_file);
Index size_bytes(Element element);

/// IEEE 754 binary16 as bits; exact.
float half_to_float(std::uint16_t half);
/// Rounds to nearest, ties to even; beyond 65504 to infinity; a NaN stays one.
std::uint16_t float_to_half(float x);

/// `count` elements at `from`, which need not be aligned, to f32; exact but for f64, which is
/// rounded to nearest, ties to even, and becomes infinite beyond the range of f32.
void to_f32(Element element, const void* from, Index count, float* to);
/// Converts back, rounded to nearest, ties to even. Returns the index of the first finite number
/// that becomes infinite, or -1.
Index from_f32(Element element, const float* from, Index count, void* to);
/// Returns the names in a file of all of them, for messages: "F32, BF16, F16 and F64".
std::string listed_elements();
/// Returns the index of the first that is infinite or no number, or -1.
Index first_not_finite(const float* values, Index count);

}  // namespace trireme::safetensors
