// What CUDA and NCCL find in the environment.
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/job/device_choice.h"

namespace trireme::job {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::Pair;

using Variables = std::map<std::string, std::string>;

/// What rank 2 of `ranks` sets where only `before` is set, and nothing stays set.
Variables set_by(const Options& options, int ranks, const Variables& before = {}) {
  const std::vector<const char*> names = {"CUDA_MODULE_LOADING",
                                          "NCCL_NVLS_ENABLE",
                                          "NCCL_HOSTID",
                                          "NCCL_MULTI_RANK_GPU_ENABLE",
                                          "NCCL_P2P_DISABLE",
                                          "NCCL_SHM_DISABLE",
                                          "NCCL_IB_DISABLE",
                                          "NCCL_MNNVL_ENABLE",
                                          "NCCL_NET",
                                          "NCCL_PROTO",
                                          "NCCL_MAX_CTAS"};
  for (const char* name : names) unsetenv(name);
  for (const auto& [name, value] : before) setenv(name.c_str(), value.c_str(), 1);
  set_gpu_environment(options, 2, ranks);
  Variables found;
  for (const char* name : names) {
    if (const char* value = std::getenv(name)) found[name] = value;
    unsetenv(name);
  }
  return found;
}

TEST(GpuEnvironment, SumsHaveOneOrderAndKernelsAreLoadedBeforeTheyRun) {
  EXPECT_THAT(set_by({}, 4), testing::ElementsAre(Pair("CUDA_MODULE_LOADING", "EAGER"),
                                                  Pair("NCCL_NVLS_ENABLE", "0")));
}

TEST(GpuEnvironment, IsLeftAloneWhereThereIsOneRankOrNoGpu) {
  EXPECT_THAT(set_by({}, 1), IsEmpty());
  Options cpu;
  cpu.device = DeviceOption::cpu;
  EXPECT_THAT(set_by(cpu, 4), IsEmpty());
}

TEST(GpuEnvironment, RanksThatShareAGpuCallThemselvesOtherHosts) {
  Options sharing;
  sharing.ranks_per_gpu = 4;
  EXPECT_THAT(set_by(sharing, 4),
              AllOf(Contains(Pair("NCCL_HOSTID", "rank2")), Contains(Pair("NCCL_NET", "Socket")),
                    Contains(Key("NCCL_MULTI_RANK_GPU_ENABLE"))));
}

TEST(GpuEnvironment, WhatIsSetStays) {
  EXPECT_THAT(set_by({}, 4, {{"NCCL_NVLS_ENABLE", "1"}}),
              AllOf(Contains(Pair("NCCL_NVLS_ENABLE", "1")), Not(Contains(Key("NCCL_HOSTID")))));
}

}  // namespace
}  // namespace trireme::job
