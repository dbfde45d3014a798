#include "runtime/store/checked_text.h"

#include "trireme/core/error.h"

#include "runtime/store/checksum.h"

namespace trireme::store {
namespace {

constexpr std::string_view sum_before = R"({"xxh3_128":")", sum_after = "\"}\n";

std::string last_line(std::string_view first_line) {
  const Checksum sum = checksum(first_line.data(), static_cast<Index>(first_line.size()));
  return str(sum_before, to_text(sum), sum_after);
}

}  // namespace

std::string with_checksum(std::string line) {
  const std::string last = last_line(line);
  return std::move(line) + last;
}

std::string_view checked_line(std::string_view text, std::string_view what) {
  const std::size_t end = text.find('\n');
  require(end != std::string_view::npos, what, " is cut short: its first line does not end");
  const std::string_view first = text.substr(0, end + 1);
  // Compared as text, so that no byte of the last line may differ either.
  require(text.substr(end + 1) == last_line(first), what,
          " is damaged or cut short: its checksum does not hold");
  return first;
}

}  // namespace trireme::store
