// How many thread blocks each group may take, as the emulated NCCL has been given it.
#define OMPI_SKIP_MPICXX 1
#include <cstdlib>

#include <gtest/gtest.h>

#include "runtime/comm/nccl/nccl_communicator.h"
#include "tests/comm/cuda/gpu_ranks.h"
#include "tests/cuda_emulation/nccl_state.h"

namespace trireme {
namespace {

constexpr int as_nccl_likes = NCCL_CONFIG_UNDEF_INT;

/// What NCCL knows of a group; null for a group of one rank, which needs no NCCL.
ncclComm_t state_of(Communicator& group) {
  auto* nccl = dynamic_cast<nccl::NcclCommunicator*>(&group);
  return nccl == nullptr ? nullptr : nccl->handle();
}

void expect_most_blocks(Communicator& group, int most) {
  const ncclComm_t state = state_of(group);
  EXPECT_EQ(state == nullptr ? most : state->config.maxCTAs, most) << group.name();
}

struct Limits {
  int layers, others;
};

void expect_limits(const Limits& limits) {
  const int size = mpi_session().size();
  for (const MeshShape& shape :
       {MeshShape(size, 1, 1), MeshShape(1, size, 1), MeshShape(1, 1, size)}) {
    const GpuRanks ranks = open_gpu_ranks(shape);
    expect_most_blocks(ranks.mesh->world(), as_nccl_likes);
    expect_most_blocks(ranks.mesh->axis(Axis::data), as_nccl_likes);
    expect_most_blocks(ranks.mesh->axis(Axis::pipeline), limits.layers);
    expect_most_blocks(ranks.mesh->axis(Axis::tensor), limits.layers);
    expect_most_blocks(*ranks.mesh->split(0, "tied parameters"), limits.others);
    const bool one_rank = state_of(ranks.mesh->world()) == nullptr;
    EXPECT_EQ(one_rank, size == 1);
  }
}

TEST(NcclSettings, GroupsThatRunSideBySideFitOnTheGpu) { expect_limits({16, 8}); }

TEST(NcclSettings, WhatTheUserChoosesIsLeftAlone) {
  for (const char* name :
       {"NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(setenv(name, "2", 1), 0);
    expect_limits({as_nccl_likes, as_nccl_likes});
    unsetenv(name);
  }
}

TEST(NcclSettings, WhatTheUserOfOneRankChoosesHoldsForAll) {
  const bool last = mpi_session().rank() == mpi_session().size() - 1;
  EXPECT_EQ(last ? setenv("NCCL_MIN_CTAS", "4", 1) : 0, 0);
  expect_limits({as_nccl_likes, as_nccl_likes});
  unsetenv("NCCL_MIN_CTAS");
}

}  // namespace
}  // namespace trireme
