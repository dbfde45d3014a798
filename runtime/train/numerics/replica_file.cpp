#include "runtime/train/numerics/replica_file.h"

#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include "runtime/store/file.h"

namespace trireme::train {
namespace {

constexpr Index most_bytes = Index{16} << 20;

std::string file_of(const Context& context) {
  const std::string& directory = context.options().checkpoint.save;
  return directory.empty() ? "" : str(directory, '/', replica_file_name);
}

std::string read_file(const std::string& path) {
  return path.empty() || !std::filesystem::exists(path) ? "" : read_whole(path, most_bytes);
}

}  // namespace

std::string this_host() {
  char name[256] = {};
  require(::gethostname(name, sizeof name - 1) == 0, "gethostname failed");
  return name;
}

Index this_attempt() {
  const char* attempt = std::getenv("TRIREME_ATTEMPT");
  return attempt == nullptr ? 0 : Index{std::atoll(attempt)};
}

std::string read_records(const Context& context) { return read_file(file_of(context)); }

void append_record(const Context& context, const ReplicaRecord& record) {
  const std::string path = file_of(context);
  if (path.empty() || context.host().rank() != 0) return;
  try {
    const std::string text = read_file(path) + to_line(record), fresh = path + ".new";
    remove_file(fresh);
    write_whole(fresh, text);
    rename_path(fresh, path);
  } catch (const Error& error) {
    context.log().warning(str("what the ranks held is not recorded: ", error.what()));
  }
}

}  // namespace trireme::train
