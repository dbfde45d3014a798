// The optimizer's whole step over processes: the same bits as on one rank, on every layout of this
// number of ranks.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/optim/mesh_steps.h"
#include "tests/support/mpi_ranks.h"

namespace trireme {
namespace {

using namespace testing;

constexpr Index steps = 4;

/// Elements of this rank's parameters that differ from those of one rank after the same steps.
int differences(StepRank& r, const Gathered& alone) {
  int count = 0;
  for (const FlatExtent& flat : r.model.layout->parameter_extents()) {
    const std::vector<float>& expected = alone.tensors().at(flat.extent.name);
    for_each_element(flat, [&](Index i, Index offset) {
      count += r.model.flat->master_data()[offset] != expected[static_cast<std::size_t>(i)] ? 1 : 0;
    });
  }
  return count;
}

TEST(OptimizerOverMpi, EveryLayoutIsBitwiseEqualToOneRankShardedOrNot) {
  const auto self = make_self_mesh();
  StepRank one(*self, {1, 1, 1, 1}, {}, {});
  for (Index step = 0; step < steps; ++step) one.step(step, 0.01);
  Gathered alone;
  alone.add(one.model.layout->parameter_extents(), one.model.flat->master_data());

  std::vector<Layout> fitting = layouts();
  fitting.push_back({3, 1, 1, 1});
  fitting.push_back({4, 2, 1, 1});
  std::erase_if(fitting, [](const Layout& l) { return l.shape().size() != mpi_session().size(); });
  ASSERT_FALSE(fitting.empty());
  for (const Layout& layout : fitting)
    for (Update update : {Update::replicated, Update::sharded}) {
      SCOPED_TRACE(describe(layout));
      const auto mesh = mpi_session().make_mesh(layout.shape());
      StepRank r(*mesh, layout, {.chunks = layout.chunks, .update = update}, {});
      for (Index step = 0; step < steps; ++step) r.step(step, 0.01);
      EXPECT_EQ(differences(r, alone), 0);
    }
}

}  // namespace
}  // namespace trireme
