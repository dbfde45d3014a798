// The flat buffer of parameters: buckets, alignment, ownership on every layout, and initial values.
#include "runtime/optim/flat_parameters.h"

#include <map>
#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include "trireme/core/random.h"

#include "tests/optim/wide_model.h"

namespace trireme {
namespace {

using namespace testing;

TEST(FlatParameters, EveryParameterIsAlignedAndBucketsTileTheBuffer) {
  for (const Layout& layout : layouts())
    for (Update update : {Update::replicated, Update::sharded}) {
      SCOPED_TRACE(describe(layout));
      const MeshShape shape = layout.shape();
      for (int rank = 0; rank < shape.size(); ++rank) {
        TinyRank r(shape, rank, {.chunks = layout.chunks, .update = update});
        const FlatLayout& flat = *r.layout;
        Index end = 0, state = 0;
        for (const Bucket& bucket : flat.buckets()) {
          EXPECT_EQ(bucket.range.begin, end);
          EXPECT_EQ(bucket.range.count % (16 * layout.data), 0);
          EXPECT_EQ(bucket.slice.count * layout.data, bucket.range.count);
          EXPECT_EQ(bucket.slice.begin,
                    bucket.range.begin + flat.options().data_rank * bucket.slice.count);
          EXPECT_EQ(bucket.state_begin, state);
          end = bucket.range.end();
          state += flat.updated(bucket).count;
        }
        EXPECT_EQ(flat.count(), end);
        EXPECT_EQ(flat.state_count(), state);
        EXPECT_EQ(flat.parameter_bytes(), 4 * end);
        Index last = 0;
        for (const FlatParameter& p : flat.parameters()) {
          EXPECT_EQ(p.range.begin % 16, 0);
          EXPECT_GE(p.range.begin, last);
          const Bucket& bucket = flat.buckets()[static_cast<std::size_t>(p.bucket)];
          EXPECT_GE(p.range.begin, bucket.range.begin);
          EXPECT_LE(p.range.end(), bucket.range.end());
          EXPECT_EQ(p.range.count,
                    r.graph.parameters()[static_cast<std::size_t>(p.id)].spec.shape.count());
          last = p.range.end();
        }
      }
    }
}

TEST(FlatParameters, BucketsFollowReadinessAndTiedParametersComeLast) {
  const MeshShape shape(1, 2, 1);
  TinyRank r(shape, 1, {.blocks = 6, .chunks = 2, .bucket_bytes = 1});  // a bucket each
  ASSERT_EQ(r.layout->ties().size(), 1u);
  EXPECT_EQ(r.layout->ties()[0], (std::vector<int>{0, 1}));
  std::vector<int> expected, order;
  for (int c : {1, 0})
    for (int id : r.plans[static_cast<std::size_t>(c)]->parameters())
      if (r.graph.parameters()[static_cast<std::size_t>(id)].name() != "table")
        expected.push_back(id);
  for (const FlatParameter& p : r.layout->parameters()) order.push_back(p.id);
  EXPECT_EQ(r.graph.parameters()[static_cast<std::size_t>(order.back())].name(), "table");
  order.pop_back();
  EXPECT_EQ(order, expected);
  EXPECT_EQ(r.layout->buckets().size(), expected.size() + 1);
  EXPECT_EQ(r.layout->buckets().back().tie, 0);
  for (std::size_t b = 0; b + 1 < r.layout->buckets().size(); ++b)
    EXPECT_EQ(r.layout->buckets()[b].tie, -1);
}

TEST(FlatParameters, ABucketIsClosedWhenItHasReachedItsBytes) {
  TinyRank r(MeshShape(1, 1, 1), 0, {.bucket_bytes = 600});
  Index bytes = 0;
  for (std::size_t b = 0; b + 1 < r.layout->buckets().size(); ++b) {
    bytes = 0;
    Index last = 0;
    for (const FlatParameter& p : r.layout->parameters())
      if (p.bucket == static_cast<int>(b)) {
        bytes += 4 * p.range.count;
        last = std::max(last, 4 * p.range.count);
      }
    EXPECT_GE(bytes, 600);
    EXPECT_LT(bytes - last, 600 + last);
  }
  EXPECT_GT(r.layout->buckets().size(), 3u);
}

TEST(FlatParameters, AParameterOfTwoChunksOfOneRankIsOneMemory) {
  TinyRank r(MeshShape(1, 1, 1), 0, {.chunks = 2});
  CpuOptions cpu;
  auto device = open_cpu(cpu);
  r.bind(*device);
  EXPECT_TRUE(r.layout->ties().empty());
  std::set<void*> seen;
  std::vector<void*> tables;
  for (const auto& plan : r.plans) {
    const std::vector<Tensor> parameters = r.flat->parameter_tensors(*plan);
    const std::vector<Tensor> gradients = r.flat->gradient_tensors(*plan);
    ASSERT_EQ(parameters.size(), plan->parameters().size());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Parameter& p = r.graph.parameters()[static_cast<std::size_t>(plan->parameters()[i])];
      EXPECT_EQ(parameters[i].shape, p.spec.shape);
      EXPECT_EQ(gradients[i].as<float>() - r.flat->gradient_data(),
                parameters[i].as<float>() - r.flat->master_data());
      if (p.name() == "table")
        tables.push_back(parameters[i].data);
      else
        EXPECT_TRUE(seen.insert(parameters[i].data).second);
    }
  }
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0], tables[1]);
}

TEST(FlatParameters, GradientsSummedOverTensorLieSideBySideInTheirBucket) {
  TinyRank r(MeshShape(1, 1, 2), 0, {.bucket_bytes = 1 << 20});
  ASSERT_EQ(r.layout->buckets().size(), 1u);
  const FlatRange terms_range = r.layout->buckets()[0].over_tensor;
  int inside = 0;
  for (const FlatParameter& p : r.layout->parameters()) {
    const std::string& name = r.graph.parameters()[static_cast<std::size_t>(p.id)].name();
    const bool in = p.range.begin >= terms_range.begin && p.range.end() <= terms_range.end();
    EXPECT_EQ(in, name.find("head_norm") != std::string::npos) << name;
    inside += in;
  }
  EXPECT_EQ(inside, 4);
}

TEST(FlatParameters, InitialValuesDependOnNameAndIndexOnly) {
  auto device = open_cpu();
  auto stream = device->make_stream();
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(describe(layout));
    const MeshShape shape = layout.shape();
    std::map<std::string, std::vector<int>> seen;
    for (int rank = 0; rank < shape.size(); ++rank) {
      TinyRank r(shape, rank, {.chunks = layout.chunks});
      r.bind(*device);
      std::fill_n(r.flat->master_data(), r.layout->count(), 9.0f);
      r.flat->clear(*stream);
      r.flat->initialise(1234, *stream, stream->pool());
      std::vector<bool> logical(static_cast<std::size_t>(r.layout->count()), false);
      for (const FlatExtent& flat : r.layout->parameter_extents()) {
        const std::string& name = flat.extent.name;
        const Random random = random_for(1234, name);
        seen[name].resize(static_cast<std::size_t>(flat.extent.global.count()));
        for_each_element(flat, [&](Index i, Index offset) {
          float expected = 0.1f * random.normal(i);
          if (name == "table") expected = 0.5f * random.normal(i);
          if (name.find("norm") != std::string::npos) expected = 1;
          if (name.find("bias") != std::string::npos) expected = 0;
          if (name.find("value") != std::string::npos)
            expected = 0.1f * (2 * random.uniform(i) - 1);
          if (name.find("padded") != std::string::npos)
            expected = 0.3f * (2 * random.uniform(i) - 1);
          ASSERT_EQ(r.flat->master_data()[offset], expected) << name << " " << i;
          if (flat.owned) ++seen[name][static_cast<std::size_t>(i)];
          logical[static_cast<std::size_t>(offset)] = true;
        });
      }
      for (Index i = 0; i < r.layout->count(); ++i)
        if (!logical[static_cast<std::size_t>(i)]) {
          ASSERT_EQ(r.flat->master_data()[i], 0) << "padding " << i;
        }
    }
    EXPECT_EQ(seen.size(), 1u + 4 * 8);
    for (const auto& [name, count] : seen)  // owned once on every data rank
      for (int c : count) ASSERT_EQ(c, layout.data) << name;
  }
}

TEST(FlatParameters, StateExtentsHoldEveryElementOncePerCopyWhenSharded) {
  for (const Layout& layout : layouts())
    for (Update update : {Update::replicated, Update::sharded}) {
      SCOPED_TRACE(describe(layout));
      const MeshShape shape = layout.shape();
      std::map<std::string, std::vector<int>> seen;
      for (int rank = 0; rank < shape.size(); ++rank) {
        TinyRank r(shape, rank, {.chunks = layout.chunks, .update = update});
        std::set<Index> offsets;
        for (const FlatExtent& flat : r.layout->state_extents()) {
          auto& counts = seen[flat.extent.name];
          counts.resize(static_cast<std::size_t>(flat.extent.global.count()));
          for_each_element(flat, [&](Index i, Index offset) {
            ASSERT_TRUE(offsets.insert(offset).second);
            ASSERT_LT(offset, r.layout->state_count());
            if (flat.owned) ++counts[static_cast<std::size_t>(i)];
          });
        }
      }
      for (const auto& [name, counts] : seen)
        for (int c : counts) ASSERT_EQ(c, update == Update::sharded ? 1 : layout.data) << name;
    }
}

TEST(FlatParameters, EveryElementIsWrittenByOneRankAndNoPaddingByAny) {
  for (const auto model : {tiny_model, wide_model})
    for (const Layout& layout : layouts())
      for (Update update : {Update::replicated, Update::sharded})
        for (FlatBuffer buffer : {FlatBuffer::masters, FlatBuffer::state}) {
          SCOPED_TRACE(describe(layout));
          const MeshShape shape = layout.shape();
          std::map<std::string, std::vector<int>> seen;
          for (int rank = 0; rank < shape.size(); ++rank) {
            TinyRank r(shape, rank, {.chunks = layout.chunks, .update = update, .model = model});
            // What is written has to lie where the rank holds it.
            std::map<std::string, std::vector<Index>> held;
            for (const FlatExtent& flat : buffer == FlatBuffer::masters
                                              ? r.layout->parameter_extents()
                                              : r.layout->state_extents()) {
              const auto count = static_cast<std::size_t>(flat.extent.global.count());
              seen[flat.extent.name].resize(count);
              std::vector<Index>& offsets = held[flat.extent.name];
              offsets.resize(count, -1);
              for_each_element(flat, [&](Index i, Index offset) {
                offsets[static_cast<std::size_t>(i)] = offset;
              });
            }
            for (const FlatExtent& flat : r.layout->written_extents(buffer)) {
              std::vector<int>& counts = seen.at(flat.extent.name);
              const std::vector<Index>& offsets = held.at(flat.extent.name);
              for_each_element(flat, [&](Index i, Index offset) {
                ++counts[static_cast<std::size_t>(i)];
                ASSERT_EQ(offsets[static_cast<std::size_t>(i)], offset);
              });
            }
          }
          for (const auto& [name, counts] : seen)
            for (int c : counts) ASSERT_EQ(c, 1) << name;
        }
}

TEST(FlatParameters, SlicesHoldEveryElementOncePerDataAxisForEitherUpdate) {
  const MeshShape shape(4, 1, 2);
  for (Update update : {Update::replicated, Update::sharded})
    for (FlatBuffer buffer : {FlatBuffer::masters, FlatBuffer::state}) {
      std::map<std::string, std::vector<int>> seen;
      for (int rank = 0; rank < shape.size(); ++rank) {
        const TinyRank r(shape, rank, {.update = update});
        for (const FlatExtent& flat : r.layout->slice_extents(buffer)) {
          auto& counts = seen[flat.extent.name];
          counts.resize(static_cast<std::size_t>(flat.extent.global.count()));
          for_each_element(flat, [&](Index i, Index offset) {
            ASSERT_LT(offset,
                      buffer == FlatBuffer::state ? r.layout->state_count() : r.layout->count());
            if (flat.owned) ++counts[static_cast<std::size_t>(i)];
          });
        }
      }
      EXPECT_EQ(seen.size(), 1u + 4 * 8);
      for (const auto& [name, counts] : seen)
        for (int c : counts) ASSERT_EQ(c, 1) << name;
    }
}

TEST(FlatParameters, RejectsChunksThatAreNotThoseOfOneRank) {
  Graph graph;
  const Value loss = tiny_model(graph, 4);
  const StageCut cut = cut_stages(graph, {loss}, 4);
  const Plan a(graph, {loss}, cut, 0), b(graph, {loss}, cut, 1), c(graph, {loss}, cut, 2);
  EXPECT_THROW(FlatLayout(graph, cut, {&a, &b}, {}), Error);
  EXPECT_THROW(FlatLayout(graph, cut, {&a, &b, &c}, {}), Error);
  EXPECT_THROW(FlatLayout(graph, cut, {}, {}), Error);
  EXPECT_NO_THROW(FlatLayout(graph, cut, {&a, &c}, {}));
  EXPECT_THROW(FlatLayout(graph, cut, {&a, &c}, {.bucket_bytes = 0}), Error);
  EXPECT_THROW(FlatLayout(graph, cut, {&a, &c}, {.data_rank = 2, .data_size = 2}), Error);
}

TEST(FlatParameters, ChunksLieWhereTheCutSays) {
  Graph graph;
  const Value loss = tiny_model(graph, 4);
  StageCut cut = cut_stages(graph, {loss}, 4);
  cut.rank_of_stage = {0, 1, 1, 0};
  const Plan a(graph, {loss}, cut, 0), c(graph, {loss}, cut, 2), d(graph, {loss}, cut, 3);
  EXPECT_THROW(FlatLayout(graph, cut, {&a, &c}, {}), Error);
  EXPECT_THROW(FlatLayout(graph, cut, {&a}, {}), Error);
  EXPECT_EQ(FlatLayout(graph, cut, {&a, &d}, {}).chunks(), 2);
}

TEST(FlatParameters, NeedMemoryFromTheStart) {
  const TinyRank r(MeshShape(1, 1, 1), 0, {});
  const Buffer memory = allocate_host(r.layout->parameter_bytes());
  EXPECT_THROW(FlatParameters(*r.layout, memory.data(), nullptr), Error);
  EXPECT_THROW(FlatParameters(*r.layout, nullptr, memory.data()), Error);
  EXPECT_THROW(FlatParameters(*r.layout, memory.data() + 4, memory.data()), Error);
  EXPECT_NO_THROW(FlatParameters(*r.layout, memory.data(), memory.data()));
}

}  // namespace
}  // namespace trireme
