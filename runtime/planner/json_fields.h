// Fields: the members of a JSON object that a person may have written: each is asked for once, with
// a message that names it where it is wrong, and what is not asked for is refused.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/error.h"

#include "runtime/core/json/json.h"

namespace trireme::planner {

std::optional<double> number_in(const Json& json);

constexpr double least_number = 1e-30, most_number = 1e30;

class Fields {
 public:
  /// `where`: of messages. Throws: Error when `json` is no object.
  Fields(const Json& json, std::string where);

  const std::string& where() const { return where_; }
  // Throw: Error that says what is there and what would be right.
  std::string text(std::string_view name) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  Index whole(std::string_view name, Index least) const;
  Index whole(std::string_view name, Index least, Index otherwise) const;
  /// As whole(), of what is counted in an int.
  int count(std::string_view name, Index least) const;
  int count(std::string_view name, Index least, int otherwise) const;
  /// As whole(): at most 1 PiB, so that sums of them stay an Index.
  Index bytes(std::string_view name, Index least) const;
  // At most 1e30, and what is above 0 at least 1e-30: quotients and products of some stay finite.
  double positive(std::string_view name) const;
  double not_negative(std::string_view name) const;
  double not_negative(std::string_view name, double otherwise) const;
  Fields object(std::string_view name) const;
  /// Without the member: empty.
  const Json::Array& array(std::string_view name) const;
  void ignore(const std::vector<std::string_view>& names) const;
  /// Throws: Error when there is a member that was not asked for.
  void end() const;

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw Error(str(where_, ": ", parts...));
  }

 private:
  const Json* find(std::string_view name) const;
  const Json& need(std::string_view name) const;
  double number(std::string_view name) const;

  const Json& json_;
  std::string where_;
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace trireme::planner
