#include "runtime/core/json/json_keys.h"

#include <cmath>
#include <limits>

namespace trireme {
namespace {

bool is_null(const Json& json) { return std::holds_alternative<std::nullptr_t>(json.value); }

template <class T>
std::optional<T> as(const Json& json) {
  if (const T* value = std::get_if<T>(&json.value)) return *value;
  return std::nullopt;
}
template <>
std::optional<double> as<double>(const Json& json) {
  if (const Index* whole = std::get_if<Index>(&json.value)) return static_cast<double>(*whole);
  if (const double* real = std::get_if<double>(&json.value)) return *real;
  return std::nullopt;
}
/// Also 8192.0.
template <>
std::optional<Index> as<Index>(const Json& json) {
  constexpr double exact = 9007199254740992.0;  // up to 2^53 every whole number is a double
  if (const Index* whole = std::get_if<Index>(&json.value)) return *whole;
  const double* real = std::get_if<double>(&json.value);
  if (real == nullptr || std::floor(*real) != *real || std::abs(*real) > exact) return std::nullopt;
  return static_cast<Index>(*real);
}

/// Short, and without the characters that turn a terminal's line into another.
bool is_plain(const std::string& key) {
  return key.size() <= most_of_a_name && one_line(key) == key;
}

constexpr const char *a_whole = "a whole number from 1 on", *a_number = "a number",
                     *a_flag = "true or false", *a_word = "a text";

}  // namespace

std::string shown(const Json& json) {
  const std::string text = to_text(json);
  if (text.size() <= most_of_a_name) return one_line(text);  // JSON leaves \x7f as it is
  std::size_t end = most_of_a_name;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // of no character a part
  return one_line(text.substr(0, end)) + "...";
}

const Json* JsonKeys::find(const char* key) {
  read_.insert(key);
  return object_.find(key);
}

bool JsonKeys::has(const char* key) {
  const Json* json = find(key);
  return json != nullptr && !is_null(*json);
}

template <class T>
std::optional<T> JsonKeys::value(const char* key, const char* expected) {
  if (!has(key)) return std::nullopt;
  const Json& json = *find(key);
  std::optional<T> fits = as<T>(json);
  if (!fits) problem(key, " is ", shown(json), "; expected ", expected);
  return fits;
}

void JsonKeys::missing(const char* key, const char* expected) {
  if (!has(key)) problem(key, " is missing; expected ", expected);
}

Index JsonKeys::whole(const char* key, Index most) {
  missing(key, a_whole);
  return whole(key, most, 1);
}
Index JsonKeys::whole(const char* key, Index most, Index absent) {
  const std::optional<Index> number = value<Index>(key, a_whole);
  if (!number) return absent;
  if (1 <= *number && *number <= most) return *number;
  problem(key, " is ", *number, "; expected a whole number from 1 to ", most);
  return absent;
}
double JsonKeys::real(const char* key, double absent) {
  const double number = value<double>(key, a_number).value_or(absent);
  if (std::abs(number) <= double{std::numeric_limits<float>::max()}) return number;
  problem(key, " is ", number, "; expected a number that fits fp32");
  return absent;
}
double JsonKeys::real(const char* key) {
  missing(key, a_number);
  return real(key, 1);
}
bool JsonKeys::flag(const char* key, bool absent) {
  return value<bool>(key, a_flag).value_or(absent);
}
std::string JsonKeys::word(const char* key, const std::string& absent) {
  return value<std::string>(key, a_word).value_or(absent);
}

std::vector<std::string> JsonKeys::unread() const {
  std::vector<std::string> all;
  if (const auto* members = std::get_if<Json::Object>(&object_.value))
    for (const auto& [key, value] : *members)
      if (!read_.contains(key)) all.push_back(is_plain(key) ? key : shown(Json(key)));
  return all;
}

}  // namespace trireme
