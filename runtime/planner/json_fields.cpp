#include "runtime/planner/json_fields.h"

#include <cmath>
#include <limits>

namespace trireme::planner {

std::optional<double> number_in(const Json& json) {
  if (const auto* whole = std::get_if<Index>(&json.value)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&json.value)) return *number;
  return std::nullopt;
}

Fields::Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
  if (!std::holds_alternative<Json::Object>(json.value)) fail("expected an object { }");
}

const Json* Fields::find(std::string_view name) const {
  asked_.emplace(name);
  return json_.find(name);
}

const Json& Fields::need(std::string_view name) const {
  const Json* found = find(name);
  if (found == nullptr) fail("'", name, "' is missing");
  return *found;
}

std::string Fields::text(std::string_view name) const {
  const Json& json = need(name);
  if (const auto* text = std::get_if<std::string>(&json.value)) return *text;
  fail("'", name, "' is ", to_text(json), ": expected a text");
}

std::string Fields::text(std::string_view name, std::string_view otherwise) const {
  return find(name) == nullptr ? std::string(otherwise) : text(name);
}

Index Fields::whole(std::string_view name, Index least) const {
  const Json& json = need(name);
  const auto* whole = std::get_if<Index>(&json.value);
  if (whole == nullptr || *whole < least)
    fail("'", name, "' is ", to_text(json), ": expected a whole number of at least ", least);
  return *whole;
}

Index Fields::whole(std::string_view name, Index least, Index otherwise) const {
  return find(name) == nullptr ? otherwise : whole(name, least);
}

int Fields::count(std::string_view name, Index least) const {
  constexpr Index most = std::numeric_limits<int>::max();
  const Index value = whole(name, least);
  if (value > most) fail("'", name, "' is ", value, ": expected at most ", most);
  return static_cast<int>(value);
}

int Fields::count(std::string_view name, Index least, int otherwise) const {
  return find(name) == nullptr ? otherwise : count(name, least);
}

Index Fields::bytes(std::string_view name, Index least) const {
  constexpr Index most = Index{1} << 50;
  const Index value = whole(name, least);
  if (value > most) fail("'", name, "' is ", value, ": expected at most ", most, " bytes");
  return value;
}

double Fields::number(std::string_view name) const {
  const Json& json = need(name);
  const std::optional<double> number = number_in(json);
  if (!number || !(std::abs(*number) <= most_number))
    fail("'", name, "' is ", to_text(json), ": expected a number of at most ", most_number);
  return *number;
}

double Fields::positive(std::string_view name) const {
  const double value = number(name);
  if (value <= 0) fail("'", name, "' is ", value, ": expected a number above 0");
  if (value < least_number)
    fail("'", name, "' is ", value, ": expected a number of at least ", least_number);
  return value;
}

double Fields::not_negative(std::string_view name) const {
  const double value = number(name);
  if (value < 0) fail("'", name, "' is ", value, ": expected 0 or more");
  return value;
}

double Fields::not_negative(std::string_view name, double otherwise) const {
  return find(name) == nullptr ? otherwise : not_negative(name);
}

Fields Fields::object(std::string_view name) const {
  return {need(name), where_ + ": " + std::string(name)};
}

const Json::Array& Fields::array(std::string_view name) const {
  static const Json::Array none;
  const Json* json = find(name);
  if (json == nullptr) return none;
  if (const auto* array = std::get_if<Json::Array>(&json->value)) return *array;
  fail("'", name, "' is ", to_text(*json), ": expected a list [ ]");
}

void Fields::ignore(const std::vector<std::string_view>& names) const {
  asked_.insert(names.begin(), names.end());
}

void Fields::end() const {
  for (const auto& [name, value] : std::get<Json::Object>(json_.value))
    if (asked_.count(name) == 0) fail("'", name, "' is not a field of a profile");
}

}  // namespace trireme::planner
