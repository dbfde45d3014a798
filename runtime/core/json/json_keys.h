// JsonKeys: the members of a JSON object as numbers, flags and words. What does not fit becomes a
// problem, a sentence with the key, its value and what would be right; reading goes on.
//
// Not installed; modules above may include it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/error.h"

#include "runtime/core/json.h"
#include "runtime/core/text/one_line.h"

namespace trireme {

class JsonKeys {
 public:
  /// `where`: precedes the keys in problems: "rope_scaling."; `object` outlives this.
  JsonKeys(const Json& object, std::string where, std::vector<std::string>& problems)
      : object_(object), where_(std::move(where)), problems_(problems) {}

  /// Null when there is no such member. Marks it as read.
  const Json* find(const char* key);
  /// There is such a member, and it is not null. Marks it as read.
  bool has(const char* key);
  /// A member that must be there. `most`: the largest number allowed.
  Index whole(const char* key, Index most);
  /// `absent`: the value where the member is not there or null.
  Index whole(const char* key, Index most, Index absent);
  double real(const char* key, double absent);
  double real(const char* key);  // must be there
  bool flag(const char* key, bool absent);
  std::string word(const char* key, const std::string& absent);

  /// More than most_problems are not kept: a hostile file may have millions. Each is one line.
  template <class... Parts>
  void problem(const Parts&... parts) {
    if (problems_.size() < most_problems) problems_.push_back(one_line(str(where_, parts...)));
  }
  /// Members that nothing has asked for.
  std::vector<std::string> unread() const;

 private:
  static constexpr std::size_t most_problems = 1000;

  template <class T>
  std::optional<T> value(const char* key, const char* expected);
  void missing(const char* key, const char* expected);

  const Json& object_;
  std::string where_;
  std::vector<std::string>& problems_;
  std::set<std::string, std::less<>> read_;
};

/// A value as it would be written, shortened; a text has quotation marks.
std::string shown(const Json& json);

}  // namespace trireme
