// The one exception type, and `require`, which every public entry uses.
// Messages are built only when a condition fails, so a check in the training loop costs a branch
// and no memory.
#pragma once

#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>

namespace trireme {

/// A failure: a sentence for people, and the source location that detected it.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message,
                 std::source_location where = std::source_location::current())
      : std::runtime_error(message), where_(where) {}
  const char* file() const noexcept { return where_.file_name(); }
  int line() const noexcept { return static_cast<int>(where_.line()); }

 private:
  std::source_location where_;
};

/// Concatenates the arguments as `<<` writes them.
template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  out.precision(9);
  (out << ... << parts);
  return out.str();
}

/// A condition and the source location that checks it. Only `require` takes one; the conversion is
/// implicit.
struct Condition {
  template <class T>
  Condition(const T& value, std::source_location at = std::source_location::current())  // NOLINT
      : holds(static_cast<bool>(value)), where(at) {}
  bool holds;
  std::source_location where;
};

/// Throws: Error with the concatenated `parts` when the condition is false. State both values and
/// what to change.
template <class... Parts>
void require(Condition condition, const Parts&... parts) {
  if (!condition.holds) [[unlikely]]
    throw Error(str(parts...), condition.where);
}

}  // namespace trireme
