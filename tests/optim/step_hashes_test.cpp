// A step that is computed twice: equal hashes where nothing is wrong, and the part and bucket of
// whatever differs.
#include "runtime/optim/step_hashes.h"

#include <cstring>
#include <optional>

#include "runtime/core/at.h"
#include "tests/optim/mesh_steps.h"

namespace trireme::testing {
namespace {

using Part = StepHashes::Part;
constexpr Part all_parts[] = {Part::terms, Part::sums, Part::masters, Part::first, Part::second};

/// One rank with a step of its own; `between` is called between the two computations.
struct TwiceRank : StepRank {
  using StepRank::StepRank;
  void bind_hashes() {
    memory = device->allocate(StepHashes::bytes(*model.flat));
    hashes.emplace(*model.flat, *stream, memory.data());
  }
  template <class Change>
  StepReport step_twice(Index number, const Change& change) {
    reducer->hash_terms_with(&*hashes);
    for (const int time : {0, 1}) {
      hashes->begin(time);
      begin(number);
      if (time == 1) change();
      backward();
      reducer->finish();
      hashes->hash_sums();
    }
    reducer->hash_terms_with(nullptr);
    set_rate(0.1);
    optimizer->start_step([](Optimizer::Part) {}, &*hashes);
    const StepReport report = optimizer->finish_step();
    hashes->finish();
    return report;
  }
  Buffer memory;
  std::optional<StepHashes> hashes;
};

std::vector<std::pair<Update, DType>> kinds() {
  return {{Update::replicated, DType::f32},
          {Update::replicated, DType::bf16},
          {Update::sharded, DType::f32},
          {Update::sharded, DType::bf16}};
}

TEST(StepHashes, AreEqualAndLeaveTheStateOfAStepThatIsComputedOnce) {
  for (const Layout& layout : mixed_layouts())
    for (const auto& [update, compute] : kinds())
      run_on_threads(layout.shape(), [&, update = update, compute = compute](Mesh& mesh) {
        TinyOptions tiny;
        tiny.update = update;
        tiny.compute = compute;
        TwiceRank twice(mesh, layout, tiny, {});
        twice.bind_hashes();
        StepRank once(mesh, layout, tiny, {});
        for (Index step = 1; step <= 3; ++step) {
          twice.step_twice(step, [] {});
          for (const Part part : all_parts) ASSERT_EQ(twice.hashes->difference(part), -1);
          once.step(step, 0.1);
        }
        ASSERT_EQ(std::memcmp(once.model.parameters.data(), twice.model.parameters.data(),
                              static_cast<std::size_t>(once.model.flat->parameter_bytes())),
                  0)
            << describe(layout);
      });
}

TEST(StepHashes, OfAWrongGradientDifferOnItsRankBeforeTheSumAndOnAllAfterIt) {
  const Layout layout{2, 1, 1, 1};
  run_on_threads(layout.shape(), [&](Mesh& mesh) {
    TwiceRank rank(mesh, layout, {}, {});
    rank.bind_hashes();
    const int last = static_cast<int>(rank.model.flat->buckets().size()) - 1;
    ASSERT_GT(last, 0);
    rank.step_twice(1, [&] {
      if (mesh.rank() == 1)
        rank.model.flat->gradient_data()[rank.model.flat->buckets()[at(last)].range.begin] += 1;
    });
    EXPECT_EQ(rank.hashes->difference(Part::terms), mesh.rank() == 1 ? last : -1);
    EXPECT_EQ(rank.hashes->difference(Part::sums), last);
    EXPECT_EQ(rank.hashes->difference(Part::masters), -1) << "both updates take the second sum";
  });
}

TEST(StepHashes, OfAWrongUpdateNameThePartAndTheBucket) {
  const Layout layout{1, 1, 1, 1};
  run_on_threads(layout.shape(), [&](Mesh& mesh) {
    for (const Part part : {Part::masters, Part::first, Part::second}) {
      TwiceRank rank(mesh, layout, {}, {});
      rank.bind_hashes();
      const auto tensors = rank.optimizer->state_tensors();
      const UpdatedBuffers buffers{rank.model.flat->master_data(), tensors[0].data, tensors[1].data,
                                   nullptr};
      const int buckets = static_cast<int>(rank.model.flat->buckets().size());
      for (int bucket = 0; bucket < buckets; ++bucket) {
        const UpdatedBuffers copies = rank.hashes->copy(bucket, buffers);
        const Bucket& b = rank.model.flat->buckets()[at(bucket)];
        if (bucket == 1 && part == Part::masters)
          copies.masters[rank.model.flat->master_begin(b) + 3] += 1;
        if (bucket == 1 && part == Part::first) buffers.first[b.state_begin] += 1;
        if (bucket == 1 && part == Part::second) copies.second[b.state_begin + 1] += 1;
        rank.hashes->hash_update(bucket, buffers);
      }
      rank.hashes->finish();
      for (const Part each : {Part::masters, Part::first, Part::second})
        EXPECT_EQ(rank.hashes->difference(each), each == part ? 1 : -1);
    }
  });
}

TEST(StepHashes, OfASkippedStepAreEqual) {
  const Layout layout{1, 1, 1, 1};
  run_on_threads(layout.shape(), [&](Mesh& mesh) {
    TwiceRank rank(mesh, layout, {}, {.kind = OptimizerOptions::Kind::sgd, .momentum = 0});
    rank.bind_hashes();
    EXPECT_FALSE(rank.step_twice(1, [] {}).skipped);
    for (const Part part : all_parts) EXPECT_EQ(rank.hashes->difference(part), -1);
  });
}

}  // namespace
}  // namespace trireme::testing
