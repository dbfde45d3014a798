#include "launch/program_of_trireme.h"

#include <filesystem>

#include "trireme/core/error.h"

#include "runtime/core/process/child.h"

namespace trireme {

namespace fs = std::filesystem;

std::string program_of_trireme(const std::string& name) {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  const std::string path = (here / name).string();
  if (is_executable(path)) return path;
  const fs::path build = here.parent_path();
  require(fs::exists(build / "CMakeCache.txt"), path,
          " is not there: cmake --install puts it beside trireme");
  throw Error(path + " is not there; it is built by: cmake --build " + build.string() +
              " --target programs");
}

}  // namespace trireme
