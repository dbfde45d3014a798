// A page whose words are damaged harms no reader, and names no rank that the job does not have.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/observe/hang/verdict.h"
#include "runtime/observe/page_reader.h"
#include "runtime/observe/status_page.h"
#include "tests/observe/page_file.h"
#include "tests/support/scratch_directory.h"

namespace trireme::observe {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Lt;

TEST(DamagedPage, NamesNoRankOutsideTheJob) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 4);
  page.add_group("world", std::array{0, 1, 2, 3});
  const auto runs = [&](const RankRun& run) {
    overwrite(folder, offsetof(PageLayout, runs), run);
    return read(folder).groups[0].runs.size();
  };
  EXPECT_EQ(runs({0, 4, 1}), 1u);
  EXPECT_EQ(runs({3, 4, -1}), 1u);
  EXPECT_EQ(runs({3, 1, 1 << 30}), 1u);
  EXPECT_EQ(runs({-1, 1, 1}), 0u);
  EXPECT_EQ(runs({4, 1, 1}), 0u);
  EXPECT_EQ(runs({1, 4, 1}), 0u);
  EXPECT_EQ(runs({2, 4, -1}), 0u);
  EXPECT_EQ(runs({0, 3, 1 << 30}), 0u);
  EXPECT_EQ(runs({0, 0, 1}), 0u);
  EXPECT_EQ(runs({0, 5, 0}), 0u);
}

TEST(DamagedPage, HasNoNameBehindItsTable) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 1);
  page.begin_op(0, {PageLayout::name_bytes - 1});
  overwrite(folder, offsetof(PageLayout, names_used), std::uint64_t{UINT64_MAX});
  overwrite(folder, offsetof(PageLayout, names) + PageLayout::name_bytes - 1, '\x05');
  EXPECT_EQ(read(folder).op, "");
}

TEST(DamagedPage, DoesNotHarmItsReader) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  StatusPage page(folder.path(), 0, 4);
  std::array<std::optional<StatusPage>, 4> others;
  const GroupId world = page.add_group("world", std::array{0, 1, 2, 3});
  for (int i = 0; i < 70; ++i) page.end(page.begin(world, {OperationKind::send}));
  page.wait_for(std::array{page.begin(world, {})});
  page.begin_op(3, page.add_name("linear"));
  page.end_step(1, 2, 3);
  for (std::size_t rank = 1; rank < 4; ++rank) {
    others[rank].emplace(folder.path(), static_cast<int>(rank), 4);
    const GroupId group = others[rank]->add_group("world", std::array{0, 1, 2, 3});
    others[rank]->wait_for(std::array{others[rank]->begin(group, {})});
  }
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const auto offset = std::uniform_int_distribution<std::size_t>(
        sizeof(PageHeader), sizeof(PageLayout) - sizeof(std::uint64_t))(random);
    const std::uint64_t garbage = (std::uint64_t{random()} << 32 | random()) & ~std::uint64_t{1};
    overwrite(folder, offset / 8 * 8, garbage);
    // Random words are seldom members that look right.
    const auto small = [&] { return std::uniform_int_distribution<std::int32_t>(-5, 5)(random); };
    overwrite(folder, offsetof(PageLayout, runs), RankRun{small(), small(), small()});
    if (i % 10 != 0) continue;
    std::vector<RankReport> reports(4);
    for (int rank = 0; rank < 4; ++rank) {
      RankReport& report = reports[static_cast<std::size_t>(rank)];
      report.page = read(folder, rank);
      report.rank = rank;
      for (const GroupState& group : report.page->groups)
        for (const RankRun& run : group.runs)
          for (std::int64_t k = 0; k < run.count; ++k)
            ASSERT_THAT(run.first + k * run.stride, AllOf(Ge(0), Lt(4)));
    }
    for (const double frozen_s : {1e-9, 1e9})
      EXPECT_THAT(judge(reports, {.frozen_s = frozen_s}).ranks, Each(AllOf(Ge(0), Lt(4))));
  }
}

}  // namespace
}  // namespace trireme::observe
