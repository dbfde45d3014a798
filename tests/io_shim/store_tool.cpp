// store_tool: the store module in a process of its own, to be run under io_shim.
//   store_tool save PATH SAVES BYTES PIECES SEED BUFFER THREADS
//       saves a ToyImage to PATH.0, PATH.1, ...; a line for each
//   store_tool read PATH
//       reads it with O_DIRECT, says how, and its checksum
// Exit code 0; 3 when the last save failed; 1 for an error.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "trireme/core/buffer.h"
#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/write/snapshot.h"
#include "tests/store/toy_image.h"

namespace trireme {
namespace {

int save(char** arguments) {
  const std::string path = arguments[0];
  const auto number = [&](int i) { return static_cast<Index>(std::atoll(arguments[i])); };
  const ToyImage image =
      make_toy_image(number(2), static_cast<int>(number(3)), static_cast<unsigned>(number(4)));
  ThreadPool pool(static_cast<int>(number(6)));
  Snapshot snapshot(image.filled(), number(5));
  Worker worker;
  for (Index i = 0; i < number(1); ++i) {
    snapshot.save(path + "." + std::to_string(i), pool, worker);
    worker.wait();
    const SnapshotReport& report = snapshot.report();
    std::printf("direct=%d reserved=%d error=%s\n", report.direct, report.reserved,
                report.error.c_str());
  }
  return snapshot.report().error.empty() ? 0 : 3;
}

int read(const std::string& path) {
  const File file = File::open(path, Caching::direct);
  const Index bytes = file.size();
  const Buffer buffer =
      allocate_host((bytes / File::direct_alignment + 1) * File::direct_alignment);
  const Index got = file.read_at(0, buffer.data(), buffer.bytes());
  std::printf("direct=%d %s\n", file.caching() == Caching::direct,
              to_text(checksum(buffer.data(), got)).c_str());
  return got == bytes ? 0 : 1;
}

int tool(int count, char** arguments) {
  const std::string command = count > 1 ? arguments[1] : "";
  if (command == "save" && count == 9) return save(arguments + 2);
  if (command == "read" && count == 3) return read(arguments[2]);
  throw Error("store_tool save PATH SAVES BYTES PIECES SEED BUFFER THREADS | read PATH");
}

}  // namespace
}  // namespace trireme

int main(int count, char** arguments) {
  try {
    return trireme::tool(count, arguments);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
