// JSON by nlohmann-json, which only this file includes. Text is read through its event interface,
// so that limits are checked before memory is taken and members keep their order.
#include "runtime/core/json/json.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <map>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"

#include "runtime/core/json/json_texts.h"
#include "runtime/core/text/one_line.h"

namespace trireme {

namespace {

using nlohmann::ordered_json;

/// What the parser complains of. `position`: bytes that it has read; `token`: the last of them.
struct Complaint {
  std::size_t position;
  const std::string& token;
  const nlohmann::detail::exception& error;

  bool has(std::string_view words) const {
    return std::string_view(error.what()).find(words) != std::string_view::npos;
  }
  bool is_overflow() const { return has("number overflow"); }
  /// Where the token begins.
  std::size_t begin() const { return position - std::min(position, token.size()); }
};

/// Whether the byte before `position` is of a NaN or an Infinity: its first letter, or its second
/// where that is "nan", which begins as "null" does.
bool is_number_that_is_none(std::string_view text, std::size_t position) {
  for (const std::size_t back : {1, 2}) {
    if (position < back || position - back >= text.size()) continue;
    std::string word;
    for (const char c : text.substr(position - back, 3)) word += static_cast<char>(std::tolower(c));
    if (word == "nan" || word == "inf") return true;
  }
  return false;
}

/// U+D800 to U+DFFF, as bytes of UTF-8 would have it.
bool is_surrogate_of_three_bytes(std::string_view text, std::size_t second) {
  return second > 0 && second < text.size() && text[second - 1] == '\xed' &&
         static_cast<unsigned char>(text[second]) >= 0xA0;
}

/// Empty: there is no more to say than where.
std::string reason_of(const Complaint& complaint, std::string_view text) {
  if (complaint.has("surrogate")) return "half of a surrogate pair";
  if (complaint.has("ill-formed UTF-8"))
    return is_surrogate_of_three_bytes(text, complaint.position - 1) ? "half of a surrogate pair"
                                                                     : "not UTF-8";
  if (complaint.has("control character")) return "a control character that is not escaped";
  if (is_number_that_is_none(text, complaint.position)) return "JSON has no NaN and no Infinity";
  if (complaint.has("unexpected end of input") || complaint.has("missing closing quote"))
    return "it ends too early";
  return "";
}

/// `where`: a part of the message, as " in member 'a'".
[[noreturn]] void refuse(const Complaint& complaint, std::string_view text,
                         const std::string& where = "") {
  if (complaint.is_overflow())
    throw Error(str("the number ", one_line(complaint.token, most_of_a_name), " at byte ",
                    complaint.begin() + 1, where, " is too large"));
  const std::string reason = reason_of(complaint, text);
  throw Error(str("this is not JSON at byte ", complaint.position, where,
                  reason.empty() ? "" : ": " + reason));
}

/// Receives the parser's events. `open_` are the arrays and objects around the next value. A
/// container is added to its parent when it opens, and the parent does not grow until it closes, so
/// the pointers stay valid.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(std::string_view text, const JsonLimits& limits, std::vector<std::string>* twins)
      : text_(text), limits_(limits), twins_(twins) {}
  Json take() { return std::move(root_); }

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(Index{value}); }
  bool number_unsigned(std::uint64_t value) override {
    require(value <= static_cast<std::uint64_t>(std::numeric_limits<Index>::max()), "the number ",
            value, " is too large");
    return add(static_cast<Index>(value));
  }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& text) override { return add(std::move(text)); }
  bool binary(nlohmann::json::binary_t&) override { return false; }

  bool start_array(std::size_t) override { return start(Json::Array()); }
  bool start_object(std::size_t) override { return start(Json::Object()); }
  bool key(std::string& name) override {
    std::get<Json::Object>(open_.back()->value).emplace_back(std::move(name), Json());
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool end_object() override {
    settle_twins(std::get<Json::Object>(open_.back()->value));
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    refuse({position, token, error}, text_);
  }

 private:
  bool add(Json json) {
    place(std::move(json));
    return true;
  }
  bool start(Json json) {
    require(static_cast<int>(open_.size()) < limits_.depth,
            "arrays and objects lie in each other more than ", limits_.depth, " deep");
    open_.push_back(&place(std::move(json)));
    return true;
  }
  Json& place(Json json) {
    require(++values_ <= limits_.values, "more than ", limits_.values, " values");
    if (open_.empty()) return root_ = std::move(json);
    if (auto* array = std::get_if<Json::Array>(&open_.back()->value))
      return array->emplace_back(std::move(json));
    return std::get<Json::Object>(open_.back()->value).back().second = std::move(json);
  }
  void settle_twins(Json::Object& object) const {
    std::vector<std::string_view> names;
    for (const auto& member : object) names.push_back(member.first);
    std::sort(names.begin(), names.end());
    const auto twin = std::adjacent_find(names.begin(), names.end());
    if (twin == names.end()) return;
    require(twins_ != nullptr, "two members are called ", one_line(*twin, most_of_a_name));
    Json::Object merged;
    std::map<std::string, std::size_t> places;
    for (auto& [name, value] : object) {
      const auto [place, is_new] = places.emplace(name, merged.size());
      if (is_new) {
        merged.emplace_back(std::move(name), std::move(value));
      } else {
        merged[place->second].second = std::move(value);
        twins_->push_back(name);
      }
    }
    object = std::move(merged);
  }

  std::string_view text_;
  JsonLimits limits_;
  std::vector<std::string>* twins_;  // null: refused
  Index values_ = 0;
  Json root_;
  std::vector<Json*> open_;
};

/// Keeps the texts of some members of the outermost object.
class TextsOfMembers : public nlohmann::json_sax<nlohmann::json> {
 public:
  TextsOfMembers(std::string_view text, std::span<const std::string> names,
                 std::vector<std::string>& texts)
      : text_(text), names_(names), texts_(texts), found_(names.size()) {
    texts_.resize(names.size());
  }

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("true or false"); }
  bool number_integer(std::int64_t) override { return other("a number"); }
  bool number_unsigned(std::uint64_t) override { return other("a number"); }
  bool number_float(double, const std::string&) override { return other("a number"); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool string(std::string& text) override {
    if (wanted_ == none) return other("text");
    texts_[wanted_] = std::move(text);
    wanted_ = none;
    return true;
  }
  bool start_object(std::size_t) override {
    return depth_ == 0 ? enter() : other("an object") && enter();
  }
  bool start_array(std::size_t) override { return other("an array") && enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(std::string& name) override {
    if (depth_ != 1) return true;
    member_ = name;
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found != names_.end()) {
      wanted_ = static_cast<std::size_t>(found - names_.begin());
      require(!found_[wanted_], "two members are called ", name);
      found_[wanted_] = true;
    }
    return true;
  }
  /// The parser ends, without an error, at a number that a double cannot hold and that is not
  /// wanted.
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    const Complaint complaint{position, token, error};
    if (complaint.is_overflow() && other("a number")) return false;
    refuse(complaint, text_,
           member_.empty() ? "" : str(" in member '", one_line(member_, most_of_a_name), "'"));
  }
  void check_all() const {
    for (std::size_t i = 0; i < names_.size(); ++i)
      require(found_[i], "there is no member '", names_[i], "'");
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  bool enter() {
    ++depth_;
    return true;
  }
  bool leave() {
    if (--depth_ == 0) member_.clear();
    return true;
  }
  /// A value that is not kept.
  bool other(const char* kind) const {
    require(depth_ > 0, "this is ", kind, ", not a JSON object");
    require(wanted_ == none, "member '", wanted_ == none ? "" : names_[wanted_], "' is ", kind,
            ", not text");
    return true;
  }

  std::string_view text_;
  std::span<const std::string> names_;
  std::vector<std::string>& texts_;
  std::string member_;  // of the outermost object, that is read
  std::vector<bool> found_;
  std::size_t wanted_ = none;  // the member whose value comes next
  Index depth_ = 0;
};

ordered_json converted(const Json& json);

struct Converter {
  template <class T>
  ordered_json operator()(const T& value) const {
    return value;
  }
  ordered_json operator()(const Json::Array& array) const {
    ordered_json out = ordered_json::array();
    for (const Json& element : array) out.push_back(converted(element));
    return out;
  }
  ordered_json operator()(const Json::Object& object) const {
    ordered_json out = ordered_json::object();
    auto& members = out.get_ref<ordered_json::object_t&>();
    members.reserve(object.size());
    for (const auto& [name, value] : object) members.emplace_back(name, converted(value));
    return out;
  }
};

ordered_json converted(const Json& json) { return std::visit(Converter(), json.value); }

/// JSON has no largest number: those that a double cannot hold become 0, of as many bytes.
std::string without_large_numbers(std::string_view text) {
  constexpr std::string_view of_numbers = "-+.eE0123456789";
  std::string changed(text);
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') in_string = !in_string;
    if (in_string) {
      at += text[at] == '\\' ? 1 : 0;  // what it escapes ends no string
      continue;
    }
    const std::size_t end = std::min(text.find_first_not_of(of_numbers, at), text.size());
    if (end == at) continue;
    double value = 0;
    const auto result = std::from_chars(&text[at], text.data() + end, value);
    if (result.ec == std::errc::result_out_of_range && result.ptr == text.data() + end)
      changed.replace(at, end - at, std::string(end - at - 1, ' ') + "0");
    at = end - 1;
  }
  return changed;
}

}  // namespace

const Json* Json::find(std::string_view key) const {
  const auto* object = std::get_if<Object>(&value);
  if (!object) return nullptr;
  for (const auto& [name, member] : *object)
    if (name == key) return &member;
  return nullptr;
}

std::string to_text(const Json& json) {
  return converted(json).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Json parse_json(std::string_view text, const JsonLimits& limits, std::vector<std::string>* twins) {
  require(static_cast<Index>(text.size()) <= limits.text_bytes, "the text has ", text.size(),
          " bytes, more than ", limits.text_bytes);
  Builder builder(text, limits, twins);
  require(nlohmann::json::sax_parse(text, &builder), "this is not JSON");
  return builder.take();
}

void read_texts(std::string_view text, std::span<const std::string> names,
                std::vector<std::string>& texts) {
  const auto read = [&](std::string_view from) {
    texts.clear();
    TextsOfMembers reader(from, names, texts);
    if (!nlohmann::json::sax_parse(from, &reader)) return false;
    reader.check_all();
    return true;
  };
  require(read(text) || read(without_large_numbers(text)), "this is not JSON");
}

std::vector<std::string> names_of_members(std::string_view text) {
  std::vector<std::string> names;
  const auto note = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    const bool is_key = event == nlohmann::json::parse_event_t::key;
    if (is_key && depth == 1) names.push_back(value.get<std::string>());
    return !is_key;  // false: the value behind the key is not kept
  };
  if (nlohmann::json::parse(text, note, false).is_discarded()) names.clear();
  return names;
}

}  // namespace trireme
