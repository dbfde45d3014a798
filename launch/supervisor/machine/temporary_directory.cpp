#include "launch/supervisor/machine/temporary_directory.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme::supervisor {

namespace fs = std::filesystem;

TemporaryDirectory::TemporaryDirectory(const std::string& parent, const std::string& prefix) {
  std::string pattern = (fs::absolute(parent) / (prefix + "-XXXXXX")).string();
  require_call(::mkdtemp(pattern.data()) != nullptr, pattern, ": mkdtemp");
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  constexpr int most_tries = 100;
  std::error_code failed;
  for (int tries = 0; tries < most_tries; ++tries) {
    fs::remove_all(path_, failed);
    if (!failed) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::cerr << "trireme: " << path_ << " cannot be removed: " << failed.message() << '\n';
}

}  // namespace trireme::supervisor
