// The repository keeps the rules, and a tree that breaks each rule once is found out.
#include "tests/layering/layering.h"

#include <fstream>
#include <regex>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSubsetOf;

TEST(Layering, HoldsInThisRepository) { EXPECT_THAT(problems(TRIREME_SOURCE_DIR), IsEmpty()); }

// docs/concepts/architecture.md: | `module` | contents | imports |, each below what it imports.
TEST(Layering, TheTableOfModulesInTheDocumentationIsTheRule) {
  std::ifstream page(TRIREME_SOURCE_DIR "/docs/concepts/architecture.md");
  const std::regex row(R"(\| `([a-z_]+)` \|.*\| ([a-z_, ]+) \|)"), word("[a-z_]+");
  Imports documented;
  std::set<std::string> above;
  std::smatch found;
  for (std::string line; std::getline(page, line);) {
    if (!std::regex_match(line, found, row)) continue;
    const std::string imports = found[2];
    std::set<std::string>& of_module = documented[found[1]];
    if (imports == "all above")
      of_module = above;
    else if (imports != "nothing")
      of_module = {std::sregex_token_iterator(imports.begin(), imports.end(), word), {}};
    EXPECT_THAT(of_module, IsSubsetOf(above)) << line;
    above.insert(found[1]);
  }
  EXPECT_EQ(documented, imports_of_modules());
}

TEST(Layering, FindsEveryPlantedViolation) {
  const auto found = problems(TRIREME_SOURCE_DIR "/tests/layering/fixture");
  EXPECT_THAT(
      found,
      ElementsAre(
          HasSubstr("examples/bad.cpp:3: an example sees trireme/trireme.h only, not "
                    "trireme/core/error.h"),
          HasSubstr(
              "examples/bad.cpp:4: an example sees no inside of trireme: runtime/comm/secret.h"),
          HasSubstr("include/trireme/comm/leaky.h:3: MPI belongs in runtime/comm/mpi/ only"),
          HasSubstr(
              "include/trireme/comm/leaky.h:3: a public header includes only the standard library"),
          HasSubstr(
              "include/trireme/core/up.h:4: core may not import graph (trireme/graph/graph.h)"),
          HasSubstr(
              "include/trireme/long.h:1: trireme.h does not include it, so it is not for users"),
          HasSubstr("include/trireme/long.h:251: 251 lines, at most 250"),
          HasSubstr("kernels/cpu/second.cpp:1: oneDNN is included by 2 files, but one may"),
          HasSubstr("kernels/general.h:5: Tile is private to kernels: declare it in "
                    "trireme::kernels"),
          HasSubstr("runtime/attic/unknown.cpp:1: no module is called attic"),
          HasSubstr("runtime/data/early.cpp:2: errno may be read before the call that sets it"),
          HasSubstr("runtime/data/makes_files.cpp:4: std::ofstream makes a file"),
          HasSubstr("runtime/data/starts_program.cpp:4: starts a program"),
          HasSubstr("runtime/data/twice.cpp:9: trireme::Twice is a type in "
                    "include/trireme/core/twice.h too"),
          HasSubstr("runtime/data/umbrella.cpp:1: data includes trireme.h, which is above it"),
          HasSubstr("runtime/graph/cli.cpp:2: CLI11 belongs in runtime/options/ only"),
          HasSubstr("runtime/interop/fragments.h:2: a comment begins without a subject"),
          HasSubstr("runtime/interop/fragments.h:4: a comment begins without a subject"),
          HasSubstr(
              "runtime/job/lists.cpp:1: --hidden-size and others are listed by name: declare"),
          HasSubstr("runtime/models/flags.cpp:2: models names the option --depth, which no program "
                    "declares"),
          HasSubstr("runtime/optim/undecided.cpp:2: a new OptimizerOptions::Kind would go where "
                    "the others go"),
          HasSubstr("runtime/optim/undecided.cpp:6: a new kind would go to default"),
          HasSubstr("runtime/store/general.h:6: Image is private to store: declare it in "
                    "trireme::store"),
          HasSubstr("runtime/train/private.cpp:1: train includes runtime/comm/secret.h, which is "
                    "private to comm"),
          HasSubstr("runtime/train/private.cpp:4: train includes runtime/comm/joined.h, which is "
                    "private to comm")));
}

}  // namespace
}  // namespace trireme::layering
