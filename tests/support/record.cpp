#include "tests/support/record.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"

namespace trireme::test {
namespace {

std::string running_test() {
  const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
  return info == nullptr ? "" : std::string(info->test_suite_name()) + "." + info->name();
}

std::string on_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) line += c == '\n' ? "\\n" : std::string(1, c);
  return line;
}

/// FNV-1a
std::uint64_t hash(const std::string& bytes) {
  std::uint64_t sum = 0xcbf29ce484222325;
  for (const char byte : bytes) sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return sum;
}

}  // namespace

void record(const std::string& kind, const std::string& text) {
  const char* path = std::getenv("TRIREME_RECORD");
  if (path == nullptr) return;
  const std::string line = kind + '\t' + running_test() + '\t' + on_one_line(text) + '\n';
  std::FILE* file = std::fopen(path, "a");
  if (file == nullptr) return;
  std::setvbuf(file, nullptr, _IOFBF, line.size() + 1);  // one write: others append, too
  std::fwrite(line.data(), 1, line.size(), file);
  std::fclose(file);
}

void record_files(const std::string& kind, const std::string& directory) {
  if (std::getenv("TRIREME_RECORD") == nullptr || !std::filesystem::exists(directory)) return;
  std::set<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) paths.insert(entry.path());
  for (const std::string& path : paths) {
    const std::string bytes = read_text(path);
    record(kind,
           path.substr(directory.size()) + ' ' +
               (path.ends_with(".h5") ? fmt::format("{} bytes {:016x}", bytes.size(), hash(bytes))
                                      : bytes));
  }
}

}  // namespace trireme::test
