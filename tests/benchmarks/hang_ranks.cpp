// Asks all ranks of a job that was started with --allow-chaos to compute without end, at once, so
// that none of them alone is certain to be the reason why the job hangs.
//   build/release/bin/hang_ranks DIRECTORY      that of TRIREME_PAGES
#include <cstdio>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/observe/injection.h"
#include "runtime/observe/page_reader.h"

int main(int count, char** arguments) {
  using namespace trireme;
  try {
    require(count == 2, "usage: hang_ranks DIRECTORY");
    const auto paths = observe::find_pages(arguments[1]);
    require(!paths.empty(), arguments[1], ": there is no status page");
    for (const std::string& path : paths)
      observe::inject(path, {.fault = observe::InjectedFault::hang});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "hang_ranks: {}\n", error.what());
    return 1;
  }
}
