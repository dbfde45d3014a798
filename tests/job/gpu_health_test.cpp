// A job on GPUs whose driver has no NVML says so in one line, and goes without.
#include "runtime/job/gpu_health.h"

#include <cstdlib>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/comm/mesh.h"
#include "trireme/core/log.h"
#include "trireme/kernels/device.h"

namespace trireme::job {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::StartsWith;

TEST(GpuHealth, IsNotWatchedWithoutTheLibraryAndALineSaysWhy) {
  ::setenv("TRIREME_NVML", "/nowhere/libnvidia-ml.so.1", 1);
  const std::unique_ptr<Mesh> mesh = make_self_mesh();
  const std::unique_ptr<Device> cpu = open_cpu();
  const std::unique_ptr<Stream> stream = cpu->make_stream();
  const Log log(0, LogLevel::info);
  testing::internal::CaptureStdout();
  EXPECT_EQ(watch_gpus({*mesh, *stream}, "GPU-0", true, log), nullptr);
  const std::string line = testing::internal::GetCapturedStdout();
  EXPECT_THAT(line,
              AllOf(StartsWith("# ["),
                    testing::HasSubstr("] GPU health is not watched: /nowhere/libnvidia-ml.so.1: "),
                    EndsWith("\n")));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  ::unsetenv("TRIREME_NVML");
}

}  // namespace
}  // namespace trireme::job
