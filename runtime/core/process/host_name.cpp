#include "runtime/core/process/host_name.h"

#include <cerrno>
#include <climits>
#include <cstring>

#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  require(::gethostname(name, sizeof name) == 0, "gethostname: ", std::strerror(errno));
  return name;
}

}  // namespace trireme
