// Kernels and collectives of several ranks through the module, loaded as a program loads it.
#include <gtest/gtest.h>

#include "trireme/kernels/elementwise.h"
#include "trireme/kernels/kernels.h"

#include "kernels/cuda.h"
#include "runtime/comm/nccl.h"
#include "tests/support/mpi_ranks.h"

namespace trireme {
namespace {

TEST(EmulatedModule, RanksSumWhatTheirKernelsMade) {
  const int size = mpi_session().size(), tensor = size % 2 == 0 ? 2 : 1;
  const auto host = mpi_session().make_mesh(MeshShape(size / tensor, 1, tensor));
  const auto gpu =
      open_cuda({.index = mpi_session().node_rank(), .module = TRIREME_EMULATED_MODULE});
  const auto stream = gpu->make_stream();
  const auto mesh = open_nccl_mesh(*host, *gpu, {.module = TRIREME_EMULATED_MODULE});
  const Buffer memory = mesh->allocate(40);
  auto* x = reinterpret_cast<float*>(memory.data());
  std::vector<float> result(10, static_cast<float>(mesh->rank()));
  float largest = static_cast<float>(size - 1);
  for (int step = 0; step < 5; ++step) {
    stream->copy(x, result.data(), 40);
    gpu->kernels().elementwise.add(*stream, {10, x, x, x});
    mesh->axis(Axis::tensor).all_reduce({x, 10, DType::f32}, Reduction::max, *stream);
    mesh->axis(Axis::data).all_reduce({x, 10, DType::f32}, Reduction::max, *stream);
    stream->copy(result.data(), x, 40);
    stream->synchronize();
    largest *= 2;
    EXPECT_EQ(result, std::vector<float>(10, largest));
  }
}

}  // namespace
}  // namespace trireme
