// The GEMM peak: given by the environment, or measured once per kind of device and kept for all
// jobs of a user.
#include "runtime/job/gemm_peak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"

#include "runtime/store/file.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using testing::HasSubstr;

constexpr Index limit = 1 << 16;

class GemmPeak : public testing::Test {
 protected:
  GemmPeak() {
    ::unsetenv("TRIREME_GEMM_PEAK");  // the build sets it, so that other tests need not measure
    ::setenv("XDG_CACHE_HOME", cache().c_str(), 1);
  }

  /// The sum over `ranks` ranks, each alone on its node, whose cores are as many as its threads or
  /// more.
  static double peak(Index ranks) {
    const Options options;
    double result = 0;
    run_on_threads(MeshShape(1, ranks, 1), [&](Mesh& mesh) {
      const std::unique_ptr<Device> device = open_cpu();
      const std::unique_ptr<Stream> stream = device->make_stream();
      const Log log(mesh.rank(), LogLevel::quiet);
      const Context context(options, mesh, *stream, log);
      const double found = gemm_peak_of_all_ranks(context, 1);
      if (mesh.rank() == 0) result = found;
    });
    return result;
  }

  std::string cache() const { return folder_ / "cache"; }
  std::string file() const { return cache() + "/trireme/gemm_peak.json"; }
  GemmRates kept() const { return parse_gemm_rates(read_whole(file(), limit)); }
  void keep(const std::string& text) const {
    make_directory(cache());
    make_directory(cache() + "/trireme");
    remove_file(file());
    write_whole(file(), text);
  }

  ScratchDirectory folder_;
};

TEST_F(GemmPeak, IsMeasuredOnceForAllJobs) {
  const double measured = peak(1);
  EXPECT_GT(measured, 0);
  GemmRates rates = kept();
  ASSERT_EQ(rates.size(), 1u);
  EXPECT_EQ(rates.begin()->second, measured);
  rates.begin()->second = 12345;
  keep(to_text(rates));
  EXPECT_EQ(peak(1), 12345);
  EXPECT_EQ(peak(2), 2 * 12345);
  EXPECT_THAT(list_directory(cache() + "/trireme"), testing::ElementsAre("gemm_peak.json"));
}

/// Two models may have the same instructions and the same number of threads.
TEST_F(GemmPeak, IsKeptWithTheModelOfTheDevice) {
  peak(1);
  const std::string described = open_cpu()->describe();
  const std::string without_memory = described.substr(0, described.rfind(", "));
  const std::string kind = kept().begin()->first;
  EXPECT_EQ(kind, without_memory + ", f32, ranks on the node: 1");
  EXPECT_THAT(kind, testing::Not(HasSubstr("free")));
}

TEST_F(GemmPeak, OfAnotherKindOfDeviceIsKeptAndNotUsed) {
  keep(to_text(GemmRates{{"another device, f32", 1}}));
  EXPECT_GT(peak(2), 1e6);
  EXPECT_EQ(kept().size(), 2u);
  EXPECT_EQ(kept().at("another device, f32"), 1);
}

TEST_F(GemmPeak, IsMeasuredAgainWhenItsFileIsDamaged) {
  for (const char* damaged : {"", "{", "[]", "{\"a\":\"b\"}", "7"}) {
    EXPECT_THAT(parse_gemm_rates(damaged), testing::IsEmpty()) << damaged;
    keep(damaged);
    EXPECT_GT(peak(1), 1e6) << damaged;
    EXPECT_EQ(kept().size(), 1u);
  }
}

TEST_F(GemmPeak, NeedsNoDirectory) {
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_GT(peak(1), 0);
}

TEST_F(GemmPeak, ThatCannotBeKeptIsStillGiven) {
  ::setenv("XDG_CACHE_HOME", "/dev/null", 1);
  EXPECT_GT(peak(1), 0);
}

TEST_F(GemmPeak, IsNotMeasuredWhereItIsGiven) {
  ::setenv("TRIREME_GEMM_PEAK", "2.5e11", 1);
  EXPECT_EQ(peak(2), 5e11);
  EXPECT_THAT(list_directory(folder_.path()), testing::IsEmpty());
}

TEST_F(GemmPeak, ThatIsGivenAsNoRateIsRefused) {
  for (const char* wrong : {"fast", "1e12x", "0", "-1", "nan", "inf"}) {
    ::setenv("TRIREME_GEMM_PEAK", wrong, 1);
    EXPECT_THAT(message_of([&] { peak(1); }),
                HasSubstr(str("TRIREME_GEMM_PEAK=", wrong, " in the environment is no number")));
  }
}

TEST(GemmRates, AreReadAsTheyWereWritten) {
  const GemmRates rates{{"GPU \"x\", bf16", 1.25e15}, {"CPU, f32", 3e9}};
  EXPECT_EQ(parse_gemm_rates(to_text(rates)), rates);
}

}  // namespace
}  // namespace trireme
