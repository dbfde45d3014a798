// Json: a small JSON value whose objects keep the order of their members. Reading is bounded, so a
// hostile file costs no more than its size allows.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme {

struct Json {
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;
  Json(bool flag) : value(flag) {}            // NOLINT: made implicitly, as literals are written
  Json(int number) : value(Index{number}) {}  // NOLINT
  Json(Index number) : value(number) {}       // NOLINT
  Json(double number) : value(number) {}      // NOLINT
  Json(const char* text) : value(std::string(text)) {}  // NOLINT
  Json(std::string text) : value(std::move(text)) {}    // NOLINT
  Json(Array elements) : value(std::move(elements)) {}  // NOLINT
  Json(Object members) : value(std::move(members)) {}   // NOLINT

  /// Null when this is no object, or has no such member.
  const Json* find(std::string_view key) const;

  std::variant<std::nullptr_t, bool, Index, double, std::string, Array, Object> value = nullptr;
};

/// On one line, without spaces. Bytes that are not UTF-8 become U+FFFD.
std::string to_text(const Json& json);

struct JsonLimits {
  Index text_bytes = Index{256} << 20;
  Index values = Index{16} << 20;
  int depth = 16;
};
/// Throws: Error that says at which byte, when it is not JSON, exceeds a limit, holds an integer
/// that is no Index, or an object with two members of one name. With `twins`, of members with one
/// name the last counts, as in Python, in the place of the first; `twins` gets their names.
Json parse_json(std::string_view text, const JsonLimits& limits = {},
                std::vector<std::string>* twins = nullptr);

}  // namespace trireme
