// The forms of the values that members of JSON objects have: bool, numbers, texts, std::optional
// (null where it is empty), lists, objects of which every member has one type; and wrappers that
// give a value limits or another form.
//
// A form has: write(value); read(place, value), which returns whether the value there fits, and
// otherwise makes that a problem and leaves the value as it is; expected(value), for messages; and
// may_be_absent, whether a reader of a member takes nothing as well.
//
// Not installed; modules above may include it.
#pragma once

#include <cmath>
#include <concepts>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "trireme/core/key_values.h"

#include "runtime/core/json/json_reader.h"

namespace trireme {

/// A value that is written as another: `to(value)` gives that, and `from` takes it back, or returns
/// nothing where it is none; `expected` says what would be right.
template <class T, class To, class From>
struct Converted {
  T& value;
  To to;
  From from;
  const char* expected;
};
template <class T, class To, class From>
Converted<T, To, From> converted(T& value, To to, From from, const char* expected) {
  return {value, to, from, expected};
}

/// A value of an enum that is written as its name(). `all`: those that are read; it outlives this.
template <class E, std::size_t count>
auto named(E& value, const std::remove_const_t<E> (&all)[count], const char* expected) {
  using Enum = std::remove_const_t<E>;
  return converted(
      value, [](Enum one) { return std::string(name(one)); },
      [&all](const std::string& text) -> std::optional<Enum> {
        for (const Enum one : all)
          if (text == name(one)) return one;
        return std::nullopt;
      },
      expected);
}

/// Some members of a record as an object of their own, which `describe(member)` describes.
template <class Describe>
struct Nested {
  Describe describe;
};
template <class Describe>
Nested<Describe> nested(Describe describe) {
  return {describe};
}

/// The form of what a Json holds as it is.
template <class T>
struct PlainForm {
  static constexpr bool may_be_absent = false;
  static std::string expected(const T&) { return JsonForm<T>::kind; }
  static Json write(const T& value) { return value; }
  static bool read(JsonReader& place, T& value) {
    const T* found = std::get_if<T>(&place.json().value);
    if (found == nullptr) return place.refuse(JsonForm<T>::kind);
    value = *found;
    return true;
  }
};
template <>
struct JsonForm<bool> : PlainForm<bool> {
  static constexpr const char* kind = "true or false";
};
template <>
struct JsonForm<std::string> : PlainForm<std::string> {
  static constexpr const char* kind = "a text";
};

/// Returns the number, which a file may have as 8192 or as 8192.0; nothing where T cannot hold it.
template <Number T>
std::optional<T> number_in(const Json& json) {
  const Index* whole = std::get_if<Index>(&json.value);
  const double* real = std::get_if<double>(&json.value);
  if constexpr (std::floating_point<T>) {
    if (whole != nullptr) return static_cast<T>(*whole);
    if (real != nullptr) return static_cast<T>(*real);
  } else {
    constexpr double exact = 9007199254740992.0;  // up to 2^53 every whole number is a double
    const bool is_whole = real != nullptr && std::floor(*real) == *real && std::abs(*real) <= exact;
    if (whole == nullptr && !is_whole) return std::nullopt;
    const Index number = whole != nullptr ? *whole : static_cast<Index>(*real);
    if (std::in_range<T>(number)) return static_cast<T>(number);
  }
  return std::nullopt;
}

template <class T>
struct JsonForm<Within<T>> {
  using Value = NumberIn<T>;
  using Limits = std::numeric_limits<Value>;
  static constexpr bool may_be_absent = !Number<T>;

  static std::string expected(const Within<T>& number) {
    if (number.words != nullptr) return number.words;
    const char* kind = std::integral<Value> ? "a whole number" : "a number";
    if (number.least == Limits::lowest() && number.most == Limits::max()) return kind;
    using Widest = std::conditional_t<std::integral<Value>, Index, Value>;
    if (number.most == std::numeric_limits<Widest>::max())
      return str(kind, " from ", number.least, " on");
    return str(kind, " from ", number.least, " to ", number.most);
  }
  static Json write(const Within<T>& number) {
    return JsonForm<std::remove_const_t<T>>::write(number.value);
  }
  static bool read(JsonReader& place, const Within<T>& number) {
    if constexpr (may_be_absent)
      if (std::holds_alternative<std::nullptr_t>(place.json().value))
        return number.value.reset(), true;
    const std::optional<Value> found = number_in<Value>(place.json());
    if (!found || !(number.least <= *found && *found <= number.most))
      return place.refuse(expected(number));
    number.value = *found;
    return true;
  }
};
template <Number T>
struct JsonForm<T> {
  static constexpr bool may_be_absent = false;

  template <class Value>
  static Within<Value> unlimited(Value& value) {
    return {value, std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()};
  }
  static std::string expected(const T& value) {
    return JsonForm<Within<const T>>::expected(unlimited(value));
  }
  static Json write(const T& value) {
    return static_cast<std::conditional_t<std::integral<T>, Index, double>>(value);
  }
  static bool read(JsonReader& place, T& value) {
    return JsonForm<Within<T>>::read(place, unlimited(value));
  }
};

template <class T, class To, class From>
struct JsonForm<Converted<T, To, From>> {
  using Wrapper = Converted<T, To, From>;
  using Written = std::decay_t<std::invoke_result_t<To, const T&>>;
  static constexpr bool may_be_absent = false;

  static std::string expected(const Wrapper& wrapper) { return wrapper.expected; }
  static Json write(const Wrapper& wrapper) {
    return JsonForm<Written>::write(wrapper.to(wrapper.value));
  }
  static bool read(JsonReader& place, const Wrapper& wrapper) {
    Written written = {};
    if (!JsonForm<Written>::read(place, written)) return false;
    std::optional<std::remove_const_t<T>> value = wrapper.from(written);
    if (!value) return place.refuse(wrapper.expected);
    wrapper.value = std::move(*value);
    return true;
  }
};

template <class T>
struct JsonForm<std::optional<T>> {
  static constexpr bool may_be_absent = true;

  static std::string expected(const std::optional<T>&) { return JsonForm<T>::expected({}); }
  static Json write(const std::optional<T>& value) {
    return value ? JsonForm<T>::write(*value) : Json();
  }
  static bool read(JsonReader& place, std::optional<T>& value) {
    T found = {};
    const bool empty = std::holds_alternative<std::nullptr_t>(place.json().value);
    if (!empty && !JsonForm<T>::read(place, found)) return false;
    value = empty ? std::nullopt : std::optional<T>(std::move(found));
    return true;
  }
};

template <class T>
struct JsonForm<std::vector<T>> {
  static constexpr bool may_be_absent = false;

  static std::string expected(const std::vector<T>&) { return "a list"; }
  static Json write(const std::vector<T>& values) {
    Json::Array array;
    for (const T& value : values) array.push_back(JsonForm<T>::write(value));
    return array;
  }
  static bool read(JsonReader& place, std::vector<T>& values) {
    std::vector<T> found;
    bool fits = std::holds_alternative<Json::Array>(place.json().value);
    if (!fits) return place.refuse("a list");
    place.each_element([&](JsonReader& element) {
      fits = JsonForm<T>::read(element, found.emplace_back()) && fits;
    });
    if (fits) values = std::move(found);
    return fits;
  }
};

/// An object whose members all have one type; All is a std::map, or KeyValues.
template <class All, class T>
struct MembersForm {
  static constexpr bool may_be_absent = false;

  static std::string expected(const All&) { return "an object"; }
  static Json write(const All& all) {
    Json::Object object;
    for (const auto& [key, value] : all) object.emplace_back(key, JsonForm<T>::write(value));
    return object;
  }
  static bool read(JsonReader& place, All& all) {
    if (!place.check_object()) return false;
    All found;
    bool fits = true;
    for (const auto& [key, json] : std::get<Json::Object>(place.json().value)) {
      JsonReader member(json, place, key);
      T value = {};
      fits = JsonForm<T>::read(member, value) && fits;
      found.insert(found.end(), {key, std::move(value)});
    }
    if (fits) all = std::move(found);
    return fits;
  }
};
template <class T>
struct JsonForm<std::map<std::string, T>> : MembersForm<std::map<std::string, T>, T> {};
template <>
struct JsonForm<KeyValues> : MembersForm<KeyValues, std::string> {};

}  // namespace trireme
