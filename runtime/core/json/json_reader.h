// JsonReader: reads the members of a JSON object. What does not fit is a problem, a sentence with
// the place, the value there and what would be right: "tensors[3].offset is -1; expected a whole
// number from 0 on". The forms of values are those of json_values.h.
//
// Not installed; modules above may include it.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "trireme/core/error.h"

#include "runtime/core/json/json.h"
#include "runtime/core/text/one_line.h"

namespace trireme {

/// How values of a type are read and written (json_values.h).
template <class T>
struct JsonForm;

template <class T>
concept Number =
    (std::integral<T> && !std::same_as<std::remove_const_t<T>, bool>) || std::floating_point<T>;

template <class T>
struct NumberOf {
  using type = T;
};
template <Number T>
struct NumberOf<std::optional<T>> {
  using type = T;
};
template <class T>
using NumberIn = typename NumberOf<std::remove_const_t<T>>::type;

/// A number, or a std::optional of one, with the limits of the number. `words` say what is
/// expected, if not the limits.
template <class T>
struct Within {
  T& value;
  NumberIn<T> least, most;
  const char* words = nullptr;
};
template <class T>
Within<T> within(T& value, NumberIn<T> least, NumberIn<T> most, const char* words = nullptr) {
  return {value, least, most, words};
}

class JsonReader {
 public:
  /// Reads an object that outlives this reader. `source`, which may be empty, is the name of the
  /// file, with which messages begin. The first problem throws Error.
  JsonReader(const Json& json, std::string source);
  /// Reads an object as well, but problems are added to a list, each as one line, and reading goes
  /// on: a value that does not fit leaves its target unchanged. The list gets no more than 1000 of
  /// them: a hostile file may have millions.
  JsonReader(const Json& json, std::string source, std::vector<std::string>& problems);
  /// Reads what lies in `parent`, which outlives this reader: the member `key`, or the element
  /// `index` of an array.
  JsonReader(const Json& json, const JsonReader& parent, std::string_view key)
      : json_(json), root_(parent.root_), parent_(&parent), key_(key) {}
  JsonReader(const Json& json, const JsonReader& parent, std::size_t index)
      : json_(json), root_(parent.root_), parent_(&parent), index_(index) {}
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  // Visits of a record's description.

  /// Reads a member that must be there, but for a std::optional, which null or nothing empties.
  template <class T>
  void operator()(std::string_view key, T&& value) {
    using Form = JsonForm<std::remove_cvref_t<T>>;
    const Json* found = find(key);
    if (found == nullptr && !Form::may_be_absent)
      problem(key, " is missing; expected ", Form::expected(value));
    else if (found != nullptr)
      read(key, *found, value);
  }
  /// Reads a member that may be absent or null, which leaves the value unchanged.
  template <class T>
  void optional(std::string_view key, T&& value) {
    if (has(key)) read(key, *find(key), value);
  }
  /// Reads what optional() reads: only a writer asks for the condition.
  template <class T>
  void when(bool /*written*/, std::string_view key, T&& value) {
    optional(key, value);
  }
  /// Demands a member with this value, such as the number of a format.
  template <class T>
  void constant(std::string_view key, const T& expected) {
    T value = {};
    (*this)(key, value);
    if (value != expected)
      problem(key, " is ", shown(value), ", but this version of trireme reads ", shown(expected));
  }

  // Reading by hand.

  /// Returns a member that must be there; with a problem that is only listed, `otherwise`.
  template <class T>
  T get(std::string_view key, T otherwise = {}) {
    (*this)(key, otherwise);
    return otherwise;
  }
  /// Returns a member; `absent` where it is absent, null, or a problem that is only listed.
  template <class T>
  T get_or(std::string_view key, T absent) {
    optional(key, absent);
    return absent;
  }
  /// Returns a number with limits; with a problem that is only listed, `least`.
  template <Number T>
  T get(std::string_view key, T least, T most) {
    (*this)(key, Within<T>{least, least, most});
    return least;
  }
  template <Number T>
  T get_or(std::string_view key, T absent, T least, T most) {
    optional(key, Within<T>{absent, least, most});
    return absent;
  }
  /// Calls f(JsonReader&) for each element of a list. Absent or null, it has none.
  template <class F>
  void each(std::string_view key, const F& f) {
    inside(key, [&](JsonReader& list) { list.each_element(f); });
  }
  template <class F>
  void each_element(const F& f) {
    const auto* array = std::get_if<Json::Array>(&json_.value);
    if (array == nullptr) {
      refuse("a list");
      return;
    }
    for (std::size_t i = 0; i < array->size(); ++i) {
      JsonReader element((*array)[i], *this, i);
      f(element);
    }
  }

  /// Calls f(JsonReader&) for a member, unless it is absent or null.
  template <class F>
  void inside(std::string_view key, const F& f) {
    if (!has(key)) return;
    JsonReader member(*find(key), *this, key);
    f(member);
  }

  /// Returns null when there is no such member, or this is no object. Marks it as read.
  const Json* find(std::string_view key);
  /// Returns whether there is such a member that is not null. Marks it as read.
  bool has(std::string_view key);
  /// Makes the first member that nothing has asked for a problem, but for those that are ignored.
  void end(std::initializer_list<std::string_view> ignored = {});
  /// Returns the names of the members that nothing has asked for, fit to be shown.
  std::vector<std::string> unread() const;
  /// Returns whether this is an object; otherwise that is a problem.
  bool check_object();

  /// Adds or throws a problem that the parts tell behind the place of this object and a dot.
  template <class... Parts>
  void problem(const Parts&... parts) const {
    report(str(prefix(), parts...));
  }
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw Error(one_line(str(prefix(), parts...)));
  }
  /// Adds or throws the problem that the value here is not what was expected. Returns: false.
  bool refuse(const std::string& expected) const;

  const Json& json() const { return json_; }
  /// Returns "tensors[3].pieces[0]"; empty for the root.
  std::string path() const;

 private:
  template <class T>
  void read(std::string_view key, const Json& json, T& value) {
    JsonReader place(json, *this, key);
    JsonForm<std::remove_cvref_t<T>>::read(place, value);
  }
  static std::string shown(const Json& json);
  std::string prefix() const;
  void report(const std::string& text) const;

  const Json& json_;
  const JsonReader* root_ = this;
  const JsonReader* parent_ = nullptr;  // null: the root
  std::string_view key_;                // in the parent, where that is an object
  std::size_t index_ = 0;               // in the parent, where that is an array
  std::vector<bool> read_;              // members that were asked for; empty: none was
  // The root alone has these:
  std::string source_;
  std::vector<std::string>* problems_ = nullptr;  // null: a problem is thrown
};

/// Returns a value as it would be written, shortened; a text has quotation marks.
std::string shown(const Json& json);

}  // namespace trireme
