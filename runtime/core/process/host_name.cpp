#include "runtime/core/process/host_name.h"

#include <climits>

#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  require_call(::gethostname(name, sizeof name) == 0, "gethostname");
  return name;
}

}  // namespace trireme
