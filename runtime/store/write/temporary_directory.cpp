#include "runtime/store/write/temporary_directory.h"

#include <chrono>
#include <filesystem>
#include <iostream>
#include <thread>

namespace trireme {

namespace fs = std::filesystem;

TemporaryDirectory::TemporaryDirectory(const std::string& parent, const std::string& prefix)
    : held_(HeldPath::Kind::private_directory, (fs::absolute(parent) / (prefix + "-")).string(),
            "") {}

TemporaryDirectory::~TemporaryDirectory() {
  constexpr int most_tries = 100;
  std::error_code failed;
  for (int tries = 0; tries < most_tries; ++tries) {
    fs::remove_all(path(), failed);
    if (!failed) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  held_.keep();
  if (failed)
    std::cerr << "trireme: " << path() << " cannot be removed: " << failed.message() << '\n';
}

}  // namespace trireme
