#include "runtime/train/numerics/replica_file.h"

#include <cstdlib>

#include "runtime/store/file.h"

namespace trireme::train {
namespace {

constexpr Index most_bytes = Index{16} << 20;  // a record takes some KiB

std::string file_of(const Context& context) {
  const std::string& directory = context.options().checkpoint.save;
  return directory.empty() ? "" : str(directory, '/', replica_file_name);
}

}  // namespace

Index this_attempt() {
  const char* attempt = std::getenv("TRIREME_ATTEMPT");
  return attempt == nullptr ? 0 : Index{std::atoll(attempt)};
}

std::string read_records(const Context& context) {
  const std::string path = file_of(context);
  return path.empty() ? "" : read_last_lines(path, most_bytes);
}

void append_record(const Context& context, const ReplicaRecord& record) {
  const std::string path = file_of(context);
  if (path.empty() || context.host().rank() != 0) return;
  try {
    append_line(path, to_line(record));
  } catch (const Error& error) {
    context.log().warning(str("what the ranks held is not recorded: ", error.what()));
  }
}

}  // namespace trireme::train
