// The files in which choices of algorithms for matrix products are kept and shared.
#include "kernels/cuda/gemm_cache.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/support/scratch_directory.h"

namespace trireme::test {

using namespace kernels;

namespace {

using State = GemmCache::Entry::State;

TEST(GemmCache, FindsWhatWasPublished) {
  const ScratchDirectory folder;
  const GemmCache cache(folder.path(), "GPU 1", "library 2");
  EXPECT_EQ(cache.find("m 1").state, State::missing);
  EXPECT_EQ(cache.publish("m 1", "this").choice, "this");
  EXPECT_EQ(cache.find("m 1").state, State::good);
  EXPECT_EQ(cache.find("m 1").choice, "this");
  EXPECT_EQ(cache.find("m 2").state, State::missing);
}

TEST(GemmCache, TheFirstToPublishDecidesForAll) {
  const ScratchDirectory folder;
  const GemmCache one(folder.path(), "GPU", "1"), other(folder.path(), "GPU", "1");
  EXPECT_EQ(one.publish("p", "one").choice, "one");
  EXPECT_EQ(other.publish("p", "other").choice, "one");
  EXPECT_EQ(one.find("p").choice, "one");
}

TEST(GemmCache, WritersThatRaceAgree) {
  const ScratchDirectory folder;
  std::vector<std::string> decided(8);
  std::vector<std::thread> writers;
  for (std::size_t i = 0; i < decided.size(); ++i)
    writers.emplace_back([&, i] {
      for (int product = 0; product < 20; ++product) {
        const GemmCache cache(folder.path(), "GPU", "1");
        decided[i] += cache.publish(str(product), str("of writer ", i)).choice;
      }
    });
  for (std::thread& writer : writers) writer.join();
  for (const std::string& choice : decided) EXPECT_EQ(choice, decided.front());
  const auto gpu = *std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(gpu), {}), 20) << "drafts are left";
}

TEST(GemmCache, KeepsGpusAndVersionsApart) {
  const ScratchDirectory folder;
  GemmCache(folder.path(), "GPU 1", "1").publish("p", "x");
  EXPECT_EQ(GemmCache(folder.path(), "GPU 2", "1").find("p").state, State::missing);
  EXPECT_EQ(GemmCache(folder.path(), "GPU 1", "2").find("p").state, State::missing);
}

TEST(GemmCache, AFileThatBelongsToAnotherGpuIsNotUsed) {
  const ScratchDirectory folder;
  GemmCache(folder.path(), "GPU 1", "1").publish("p", "x");
  std::filesystem::rename(folder / "GPU-1-1", folder / "GPU-2-1");
  const GemmCache cache(folder.path(), "GPU 2", "1");
  EXPECT_EQ(cache.find("p").state, State::unusable);
  EXPECT_NE(cache.find("p").why.find("belongs to another GPU"), std::string::npos);
  EXPECT_EQ(cache.publish("p", "y").state, State::unusable) << "no process uses one of its own";
}

TEST(GemmCache, AFileThatIsDamagedIsNotUsed) {
  const ScratchDirectory folder;
  const GemmCache cache(folder.path(), "GPU", "1");
  cache.publish("p", "algorithm");
  const std::string path = std::filesystem::directory_iterator(folder / "GPU-1")->path();
  const std::vector<std::byte> good = bytes_of_file(path);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{4};
    write_bytes(path, bad);
    EXPECT_EQ(cache.find("p").state, State::unusable) << "byte " << i;
    bad.resize(i);
    write_bytes(path, bad);
    EXPECT_EQ(cache.find("p").state, State::unusable) << "cut to " << i;
  }
  write_bytes(path, good);
  EXPECT_EQ(cache.find("p").choice, "algorithm");
}

TEST(GemmCache, WithoutADirectoryItIsOff) {
  EXPECT_FALSE(GemmCache("", "GPU", "1").on());
  EXPECT_TRUE(GemmCache("somewhere", "GPU", "1").on());
}

}  // namespace
}  // namespace trireme::test
