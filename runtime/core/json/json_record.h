// Records: structs whose members are described once, for reading and for writing.
//
//   void describe(RecordOf<Blame> auto& blame, auto& member) {
//     member("host", blame.host);
//     member.optional("points", within(blame.points, 0, 100));
//     member.when(!blame.why.empty(), "why", blame.why);
//   }
//   Json json = to_json(blame);
//   Blame same = from_json<Blame>(json, "FILE");
//
// describe() lies in the namespace of the record. `member` is a JsonWriter or a JsonReader; what
// types members may have is said in json_values.h.
//
// Not installed; modules above may include it.
#pragma once

#include <algorithm>
#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime/core/json/json_values.h"

namespace trireme {

/// Is Record where it is read, and const Record where it is written.
template <class T, class Record>
concept RecordOf = std::same_as<std::remove_const_t<T>, Record>;

/// Is true of the `member` that reads: a description asks it for what only a reader does.
template <class Member>
inline constexpr bool reads = std::same_as<std::remove_cvref_t<Member>, JsonReader>;

/// Writes the members of a record in the order of their description.
class JsonWriter {
 public:
  template <class T>
  void operator()(std::string_view key, const T& value) {
    object_.emplace_back(key, JsonForm<T>::write(value));
  }
  template <class T>
  void optional(std::string_view key, const T& value) {
    (*this)(key, value);
  }
  template <class T>
  void when(bool written, std::string_view key, const T& value) {
    if (written) (*this)(key, value);
  }
  template <class T>
  void constant(std::string_view key, const T& value) {
    (*this)(key, value);
  }
  void end(std::initializer_list<std::string_view> = {}) {}
  Json take() { return std::move(object_); }

 private:
  Json::Object object_;
};

template <class Record>
Json to_json(const Record& record) {
  JsonWriter writer;
  describe(record, writer);
  return writer.take();
}

/// Throws: Error with the first problem, after `source`.
template <class Record>
Record from_json(const Json& json, const std::string& source = "") {
  Record record;
  JsonReader reader(json, source);
  describe(record, reader);
  return record;
}

/// Returns the records of a file of lines. What is no such record, such as a line that a crash has
/// cut, is left out.
template <class Record>
std::vector<Record> records_in(std::string_view lines) {
  std::vector<Record> records;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    try {
      records.push_back(from_json<Record>(parse_json(line)));
    } catch (const Error&) {
    }
  }
  return records;
}

/// The form of what has none of its own: a record.
template <class Record>
struct JsonForm {
  static constexpr bool may_be_absent = false;
  static std::string expected(const Record&) { return "an object"; }
  static Json write(const Record& record) { return to_json(record); }
  static bool read(JsonReader& place, Record& record) {
    if (!place.check_object()) return false;
    describe(record, place);
    return true;
  }
};

template <class Describe>
struct JsonForm<Nested<Describe>> {
  static constexpr bool may_be_absent = false;

  static std::string expected(const Nested<Describe>&) { return "an object"; }
  static Json write(const Nested<Describe>& nested) {
    JsonWriter writer;
    nested.describe(writer);
    return writer.take();
  }
  static bool read(JsonReader& place, const Nested<Describe>& nested) {
    if (!place.check_object()) return false;
    nested.describe(place);
    return true;
  }
};

/// The form of a record that is written as a list: row_of(record) is a std::tuple of its cells,
/// which are references or wrappers.
template <class Record>
requires requires(Record& record) { row_of(record); }
struct JsonForm<Record> {
  static constexpr bool may_be_absent = false;

  static std::string expected(const Record&) { return "a list"; }
  static Json write(const Record& record) {
    return std::apply(
        [](const auto&... cells) {
          return Json::Array{JsonForm<std::remove_cvref_t<decltype(cells)>>::write(cells)...};
        },
        row_of(record));
  }
  static bool read(JsonReader& place, Record& record) {
    const auto* array = std::get_if<Json::Array>(&place.json().value);
    auto row = row_of(record);
    constexpr std::size_t count = std::tuple_size_v<decltype(row)>;
    if (array == nullptr || array->size() != count)
      return place.refuse(str("a list of ", count, " values"));
    std::size_t i = 0;
    const auto read_cell = [&](auto& cell) {
      JsonReader element((*array)[i], place, i);
      ++i;
      return JsonForm<std::remove_cvref_t<decltype(cell)>>::read(element, cell);
    };
    return std::apply([&](auto&... cells) { return (read_cell(cells) && ...); }, row);
  }
};

}  // namespace trireme
