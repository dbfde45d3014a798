// What a program that uses the library does wrong ends in one message that says where, and an exit
// code, on any rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

struct Mistake {
  std::string name, options;
  int exit_code;
  std::string message;
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

class HostileLibrary : public testing::TestWithParam<Mistake> {};

TEST_P(HostileLibrary, EndsWithOneMessage) {
  const Mistake& mistake = GetParam();
  const ScratchDirectory folder;
  for (const char* start : {"", TRIREME_MPIRUN " --timeout 120 -np 2 "}) {
    const Outcome outcome =
        run_shell(str(start, TRIREME_BIN_DIR "/hostile_mistakes --train-iters 2 --mistake ",
                      mistake.name, " ", mistake.options),
                  folder / "log");
    EXPECT_EQ(outcome.exit_code, mistake.exit_code) << outcome.output;
    EXPECT_THAT(outcome.output, testing::HasSubstr(mistake.message));
    EXPECT_EQ(count(outcome.output, "terminate called"), 0) << outcome.output;
  }
}

const Mistake mistakes[] = {
    {"none", "--check-finite", 0, "step"},
    {"op-throws", "", 1, "forward of 'double' in micro-batch 0 of step 1: no more"},
    {"op-throws-a-number", "", 1,
     "forward of 'double' in micro-batch 0 of step 1: an exception of type int, which is no "
     "std::exception"},
    {"op-writes-too-far", "--check-finite", 1,
     "'double' writes beyond the end of output 0 in forward of micro-batch 0 of step 1"},
    {"data-throws-configuration", "", 1, "no more data"},
    {"data-throws-a-number", "", 1, "an exception of type int, which is no std::exception"},
    {"targets", "", 1, "DataSource::fill says that sample 0 has -5 targets"},
    {"body-throws-a-number", "", 1, "error: an exception of type int, which is no std::exception"},
};
INSTANTIATE_TEST_SUITE_P(Table, HostileLibrary, testing::ValuesIn(mistakes));

}  // namespace
}  // namespace trireme::test
