// What the ranks of a job have written to their status pages, as a JSON object a rank.
//   build/release/bin/page_counts DIRECTORY      that of TRIREME_PAGES, also after the job
// moves: steps, micro-batches, ops, phases and ends of waits; operations: begun, in all groups.
#include <cstdint>
#include <cstdio>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/observe/page_reader.h"

int main(int count, char** arguments) {
  using namespace trireme;
  try {
    require(count == 2, "usage: page_counts DIRECTORY");
    const auto paths = observe::find_pages(arguments[1]);
    require(!paths.empty(), arguments[1], ": there is no status page");
    for (const std::string& path : paths) {
      const observe::PageState page = observe::PageReader(path).read();
      std::uint64_t operations = 0;
      for (const observe::GroupState& group : page.groups) operations += group.begun;
      fmt::print("{{\"rank\":{},\"step\":{},\"moves\":{},\"operations\":{}}}\n", page.rank,
                 page.step, page.ops, operations);
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "page_counts: {}\n", error.what());
    return 1;
  }
}
