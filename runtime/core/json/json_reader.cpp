#include "runtime/core/json/json_reader.h"

namespace trireme {
namespace {

constexpr std::size_t most_problems = 1000;

/// Short, and without the characters that turn a terminal's line into another.
bool is_plain(const std::string& key) {
  return key.size() <= most_of_a_name && one_line(key) == key;
}

}  // namespace

std::string shown(const Json& json) {
  const std::string text = to_text(json);
  if (text.size() <= most_of_a_name) return one_line(text);  // JSON leaves \x7f as it is
  std::size_t end = most_of_a_name;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // of no character a part
  return one_line(text.substr(0, end)) + "...";
}

JsonReader::JsonReader(const Json& json, std::string source)
    : json_(json), source_(std::move(source)) {
  check_object();
}

JsonReader::JsonReader(const Json& json, std::string source, std::vector<std::string>& problems)
    : json_(json), source_(std::move(source)), problems_(&problems) {
  check_object();
}

bool JsonReader::check_object() {
  return std::holds_alternative<Json::Object>(json_.value) || refuse("an object");
}

const Json* JsonReader::find(std::string_view key) {
  const auto* object = std::get_if<Json::Object>(&json_.value);
  if (object == nullptr) return nullptr;
  for (std::size_t i = 0; i < object->size(); ++i) {
    if ((*object)[i].first != key) continue;
    read_.resize(object->size());
    read_[i] = true;
    return &(*object)[i].second;
  }
  return nullptr;
}

bool JsonReader::has(std::string_view key) {
  const Json* json = find(key);
  return json != nullptr && !std::holds_alternative<std::nullptr_t>(json->value);
}

std::vector<std::string> JsonReader::unread() const {
  std::vector<std::string> all;
  const auto* object = std::get_if<Json::Object>(&json_.value);
  for (std::size_t i = 0; object != nullptr && i < object->size(); ++i)
    if (const std::string& key = (*object)[i].first; read_.empty() || !read_[i])
      all.push_back(is_plain(key) ? key : trireme::shown(Json(key)));
  return all;
}

void JsonReader::end(std::initializer_list<std::string_view> ignored) {
  for (const std::string_view key : ignored) find(key);
  if (const std::vector<std::string> others = unread(); !others.empty())
    problem(others.front(), " is not understood");
}

std::string JsonReader::path() const {
  if (parent_ == nullptr) return "";
  const std::string before = parent_->path();
  if (std::holds_alternative<Json::Array>(parent_->json_.value))
    return str(before, '[', index_, ']');
  return before.empty() ? std::string(key_) : str(before, '.', key_);
}

std::string JsonReader::shown(const Json& json) { return trireme::shown(json); }

std::string JsonReader::prefix() const {
  const std::string here = path(), &source = root_->source_;
  return (source.empty() ? "" : source + ": ") + (here.empty() ? "" : here + ".");
}

bool JsonReader::refuse(const std::string& expected) const {
  const std::string here = path(), &source = root_->source_;
  report(str(source.empty() ? "" : source + ": ", here.empty() ? "this" : here, " is ",
             shown(json_), "; expected ", expected));
  return false;
}

void JsonReader::report(const std::string& text) const {
  std::vector<std::string>* problems = root_->problems_;
  if (problems == nullptr) throw Error(one_line(text));
  if (problems->size() < most_problems) problems->push_back(one_line(text));
}

}  // namespace trireme
