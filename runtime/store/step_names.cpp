#include "runtime/store/step_names.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/core/parse_number.h"
#include "runtime/store/file.h"
#include "runtime/store/steps.h"

namespace trireme::store {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-";

void remove_with_content(const std::string& path) {
  for (const std::string& name : list_directory(path)) {
    const std::string child = str(path, '/', name);
    std::error_code ignored;
    if (fs::symlink_status(child, ignored).type() == fs::file_type::directory)
      remove_with_content(child);
    else
      remove_file(child);
  }
  remove_directory(path);
}

}  // namespace
}  // namespace trireme::store

std::string trireme::step_name(Index step) {
  require(step >= 0, "a step is not negative, but ", step);
  return fmt::format("{}{:06}", store::prefix, step);
}

std::string trireme::unfinished_path(const std::string& root, Index step, const std::string& run) {
  return store::step_path(root, step, "tmp", run);
}

namespace trireme::store {

std::optional<StepEntry> parse_step_name(std::string_view name) {
  const std::string_view number = name.substr(0, name.find('.'));
  if (!number.starts_with(prefix)) return {};
  const auto step = parse_number<Index>(number.substr(prefix.size()));
  if (!step || *step < 0 || step_name(*step) != number) return {};
  if (number.size() == name.size()) return StepEntry{*step, ""};
  const std::string_view rest = name.substr(number.size() + 1);
  const std::string_view state = rest.substr(0, rest.find('-'));
  for (const char* known : {"tmp", "deleted", "replaced", "aside"})
    if (state == known && state.size() + 1 < rest.size()) return StepEntry{*step, known};
  return {};
}

std::string step_path(const std::string& root, Index step) { return root + '/' + step_name(step); }

std::string step_path(const std::string& root, Index step, const char* state,
                      const std::string& run) {
  require(!run.empty() && run.find('/') == std::string::npos, "\"", run,
          "\" cannot be the id of a run: it becomes part of file names");
  return fmt::format("{}.{}-{}", step_path(root, step), state, run);
}

bool is_there(const std::string& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

void remove_tree(const std::string& root, const std::string& path) {
  if (!is_there(path)) return;
  sync_directory(root);
  remove_with_content(path);
}

}  // namespace trireme::store
