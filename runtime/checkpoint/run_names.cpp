#include "runtime/checkpoint/run_names.h"

#include <cstdlib>
#include <ctime>
#include <random>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/parse_number.h"

namespace trireme::checkpoint {

std::string utc_now(const char* format) {
  return fmt::format(fmt::runtime(format), fmt::gmtime(std::time(nullptr)));
}

std::string new_run_id() {
  return fmt::format("{}-{}-{:04x}", utc_now("{:%Y%m%d%H%M%S}"), getpid(),
                     std::random_device()() & 0xffffu);
}

store::Lineage supervised_lineage() {
  const char* run = std::getenv("TRIREME_RUN_KEY");
  const char* attempt = std::getenv("TRIREME_ATTEMPT");
  if (run == nullptr && attempt == nullptr) return {};
  require(run != nullptr && attempt != nullptr && *run != '\0',
          "TRIREME_RUN_KEY and TRIREME_ATTEMPT are set by a supervisor, both or neither");
  const auto number = parse_number<Index>(attempt);
  require(number && *number > 0, "TRIREME_ATTEMPT=", attempt, ": expected a whole number >= 1");
  return {run, *number};
}

}  // namespace trireme::checkpoint
