// The instruction set that the environment names. Each test has processes of its own: oneDNN takes
// a limit only before its first use.
#include <cstdlib>

#include <dnnl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/kernels/kernels.h"

#include "tests/kernels/all_instruction_sets.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

using testing::HasSubstr;

class Environment : public testing::TestWithParam<InstructionSet> {
 protected:
  Environment() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  /// f() in another process, where the environment names `set`.
  template <class F>
  static void in_environment(const char* set, F f) {
    const auto run = [&] {
      setenv("TRIREME_INSTRUCTION_SET", set, 1);
      f();
      std::exit(testing::Test::HasFailure() ? 1 : 0);
    };
    EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
  }
};

constexpr int extensions_of(InstructionSet set) {
  return set == InstructionSet::portable ? dnnl_cpu_isa_sse41
         : set == InstructionSet::avx2   ? dnnl_cpu_isa_avx2
                                         : dnnl_cpu_isa_avx512_core_bf16;
}

TEST_P(Environment, DecidesWhatBestIsAndHowWideOneDnnIs) {
  const InstructionSet set = GetParam();
  if (!available(set)) GTEST_SKIP() << "not on this machine: " << name(set);
  in_environment(name(set), [&] {
    const auto device = open_cpu();
    EXPECT_THAT(device->describe(), HasSubstr(std::string(", ") + name(set) + ", 1 thread"));
    EXPECT_EQ(dnnl_get_effective_cpu_isa() & ~extensions_of(set), 0);
    if (set != InstructionSet::avx512) {
      EXPECT_FALSE(device->traits().native_bf16);
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Sets, Environment,
                         testing::Values(InstructionSet::portable, InstructionSet::avx2,
                                         InstructionSet::avx512),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST_F(Environment, LeavesDevicesThatAskForASetTheirLoops) {
  in_environment("portable", [] {
    for (const InstructionSet set : instruction_sets())
      EXPECT_THAT(open_cpu({1, set})->describe(), HasSubstr(std::string(", ") + name(set)));
  });
}

TEST_F(Environment, IsTooLateOnceOneDnnIsUsed) {
  if (!available(InstructionSet::avx2)) GTEST_SKIP() << "oneDNN has nothing to be kept from";
  in_environment("best", [] {
    (void)open_cpu();
    (void)dnnl_get_effective_cpu_isa();
    setenv("TRIREME_INSTRUCTION_SET", "portable", 1);
    EXPECT_THAT(message_of([] { open_cpu(); }), HasSubstr("oneDNN cannot be limited to portable"));
  });
}

TEST_F(Environment, ThatNamesNoSetIsRefused) {
  for (const char* value : {"", "avx", "AVX2", "avx2 "})
    in_environment(value, [&] {
      EXPECT_THAT(message_of([] { open_cpu(); }),
                  HasSubstr(std::string("TRIREME_INSTRUCTION_SET=") + value +
                            ": expected best, portable, avx2 or avx512"));
    });
}

}  // namespace
}  // namespace trireme
