#include "runtime/core/process/process_stat.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "runtime/core/parse_number.h"

namespace trireme {
namespace {

bool parse_field(std::string_view text, std::int64_t& value) {
  const auto number = parse_number<std::int64_t>(text);
  if (number) value = *number;
  return number.has_value();
}

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  constexpr int state_field = 3, parent_field = 4, session_field = 6, started_field = 22;
  const std::size_t name_end = text.rfind(") ");
  if (name_end == std::string_view::npos) return {};
  text.remove_prefix(name_end + 2);
  ProcessStat stat;
  for (int field = state_field; field <= started_field; ++field) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    if (field == state_field) {
      if (word.size() != 1) return {};
      stat.state = word[0];
    }
    if (field == parent_field && !parse_field(word, stat.parent)) return {};
    if (field == session_field && !parse_field(word, stat.session)) return {};
    if (field == started_field && !parse_field(word, stat.started_ticks)) return {};
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return stat;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<ProcessStat> read_process_stat(std::int64_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  char content[1024];  // a program's name may hold line ends: not by std::getline()
  in.read(content, sizeof content);
  return parse_process_stat({content, static_cast<std::size_t>(in.gcount())});
}

}  // namespace trireme
