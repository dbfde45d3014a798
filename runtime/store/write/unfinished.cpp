#include "runtime/store/write/unfinished.h"

#include <cstdint>
#include <filesystem>
#include <random>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::uint64_t drawn() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

}  // namespace

Unfinished::Unfinished(std::string path) : final_(std::move(path)) {
  std::error_code ignored;
  const bool taken = fs::exists(fs::symlink_status(final_, ignored));
  require(!taken, final_, ": exists already; remove it, or give another name");
  path_ = fmt::format("{}.{:016x}.tmp", final_, drawn());
}

Unfinished::~Unfinished() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void Unfinished::finish() {
  rename_new(path_, final_);
  path_.clear();
  const std::string parent = fs::path(final_).parent_path().string();
  sync_directory(parent.empty() ? "." : parent);
}

}  // namespace trireme
