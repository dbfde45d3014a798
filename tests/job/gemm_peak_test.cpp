// The GEMM peak: measured once per kind of device, and kept beside the checkpoints.
#include "runtime/job/gemm_peak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"

#include "runtime/store/file.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

constexpr Index limit = 1 << 16;

/// The sum over `ranks` ranks on one node, whose cores are as many as its threads or more.
double peak(Index ranks, const std::string& save) {
  Options options;
  options.checkpoint.save = save;
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

TEST(GemmPeak, IsMeasuredOnceInARun) {
  const ScratchDirectory folder;
  const double measured = peak(1, folder.path());
  EXPECT_GT(measured, 0);
  GemmRates rates = parse_gemm_rates(read_whole(folder / "gemm_peak.json", limit));
  ASSERT_EQ(rates.size(), 1u);
  EXPECT_EQ(rates.begin()->second, measured);
  rates.begin()->second = 12345;
  folder.write("gemm_peak.json", to_text(rates));
  EXPECT_EQ(peak(1, folder.path()), 12345);
  EXPECT_EQ(peak(2, folder.path()), 2 * 12345);
}

/// Two models may have the same instructions and the same number of threads.
TEST(GemmPeak, IsKeptWithTheModelOfTheDevice) {
  const ScratchDirectory folder;
  peak(1, folder.path());
  const GemmRates rates = parse_gemm_rates(read_whole(folder / "gemm_peak.json", limit));
  const std::string described = open_cpu()->describe();
  const std::string without_memory = described.substr(0, described.rfind(", "));
  EXPECT_EQ(rates.begin()->first, without_memory + ", f32");
  EXPECT_THAT(rates.begin()->first, testing::Not(testing::HasSubstr("free")));
}

TEST(GemmPeak, OfAnotherKindOfDeviceIsKeptAndNotUsed) {
  const ScratchDirectory folder;
  folder.write("gemm_peak.json", to_text(GemmRates{{"another device, f32", 1}}));
  EXPECT_GT(peak(2, folder.path()), 1e6);
  const GemmRates rates = parse_gemm_rates(read_whole(folder / "gemm_peak.json", limit));
  EXPECT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates.at("another device, f32"), 1);
}

TEST(GemmPeak, IsMeasuredAgainWhenItsFileIsDamaged) {
  for (const char* damaged : {"", "{", "[]", "{\"a\":\"b\"}", "7"}) {
    EXPECT_THAT(parse_gemm_rates(damaged), testing::IsEmpty()) << damaged;
    const ScratchDirectory folder;
    folder.write("gemm_peak.json", damaged);
    EXPECT_GT(peak(1, folder.path()), 1e6) << damaged;
    EXPECT_EQ(parse_gemm_rates(read_whole(folder / "gemm_peak.json", limit)).size(), 1u);
  }
}

TEST(GemmPeak, NeedsNoDirectory) { EXPECT_GT(peak(1, ""), 0); }

TEST(GemmPeak, ThatCannotBeKeptIsStillGiven) { EXPECT_GT(peak(1, "/dev/null"), 0); }

TEST(GemmRates, AreReadAsTheyWereWritten) {
  const GemmRates rates{{"GPU \"x\", bf16", 1.25e15}, {"CPU, f32", 3e9}};
  EXPECT_EQ(parse_gemm_rates(to_text(rates)), rates);
}

}  // namespace
}  // namespace trireme
