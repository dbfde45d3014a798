// The forms in JSON of what manifests and headers of snapshots hold.
#pragma once

#include "trireme/core/shape.h"

#include "runtime/core/json/json_record.h"
#include "runtime/store/checksum.h"
#include "runtime/store/manifest.h"

namespace trireme {

/// 32 hexadecimal digits.
template <>
struct JsonForm<Checksum> {
  static constexpr bool may_be_absent = false;
  static constexpr const char* kind = "32 hexadecimal digits";

  static std::string expected(const Checksum&) { return kind; }
  static Json write(const Checksum& sum) { return to_text(sum); }
  static bool read(JsonReader& place, Checksum& sum) {
    const auto* text = std::get_if<std::string>(&place.json().value);
    const std::optional<Checksum> found = text ? parse_checksum(*text) : std::nullopt;
    if (!found) return place.refuse(kind);
    sum = *found;
    return true;
  }
};

template <>
struct JsonForm<Shape> {
  static constexpr bool may_be_absent = false;

  static std::string expected(const Shape&) { return "a list"; }
  static Json write(const Shape& shape) { return Json::Array(shape.begin(), shape.end()); }
  static bool read(JsonReader& place, Shape& shape) {
    std::vector<Index> extents;
    if (!JsonForm<std::vector<Index>>::read(place, extents)) return false;
    if (extents.size() > Shape::max_dims)
      return place.refuse(str("a list of at most ", Shape::max_dims));
    shape = {};
    for (const Index extent : extents) shape.push_back(extent);
    return true;
  }
};

}  // namespace trireme
