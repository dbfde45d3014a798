// A supervised run on ranks as threads, whose snapshots in memory a test looks at.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/store/file.h"
#include "runtime/store/tiers/slots.h"
#include "tests/checkpoint/checkpoint_ranks.h"
#include "tests/support/record.h"
#include "tests/support/scratch_directory.h"

namespace trireme::testing {

namespace fs = std::filesystem;

/// Settles the tiers in the order of the trainer: the farthest one comes first.
inline double end_step(CheckpointRank& rank) {
  const std::vector<checkpoint::Tier*>& tiers = rank.checkpointer.tiers();
  std::vector<double> sums;
  for (const checkpoint::Tier* tier : tiers) sums.push_back(tier->vote());
  rank.context.host().all_reduce({sums.data(), static_cast<Index>(sums.size()), DType::f64},
                                 Reduction::sum);
  for (std::size_t i = tiers.size(); i > 0; --i) tiers[i - 1]->settle(sums[i - 1]);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

/// A snapshot that all ranks have voted for, with its copies.
inline void snapshot(CheckpointRank& rank) {
  rank.memory().start(rank.progress);
  end_step(rank);
  EXPECT_EQ(rank.memory().newest(), rank.progress.step);
  end_step(rank);  // copies begin
  while (end_step(rank) > 0) rank.checkpointer.poll();
}

/// A supervised run of which the tests are attempts.
class MemoryTier : public ::testing::Test {
 protected:
  MemoryTier() {
    ::setenv("TRIREME_RUN_KEY", key_.c_str(), 1), ::setenv("TRIREME_ATTEMPT", "1", 1);
  }
  ~MemoryTier() override {
    ::unsetenv("TRIREME_RUN_KEY"), ::unsetenv("TRIREME_ATTEMPT");
    for (const std::string& tier : {directory(), folder_ / "run"}) test::record_files("tier", tier);
    store::remove_snapshots(directory());
  }
  std::string directory() const { return store::snapshot_directory(key_); }
  /// The same job again and again.
  CheckpointJob attempt(CheckpointJob job = {}) const {
    job.options.checkpoint.save_memory_interval = 1;
    return loading_from(folder_ / "run", saving_to(folder_ / "run", std::move(job)));
  }
  /// Which step the next attempt loads.
  Index loaded_step(const CheckpointJob& job) const {
    Index step = -1;
    on_threads(job, [&](CheckpointRank& rank) {
      rank.load();
      if (rank.context.host().rank() == 0) step = rank.progress.step;
    });
    return step;
  }
  /// A durable step 1, snapshots of steps 2 and 3.
  void make_steps(const CheckpointJob& job, bool durable = true) const {
    on_threads(job, [&](CheckpointRank& rank) {
      rank.load();
      rank.train_to(1);
      EXPECT_TRUE(!durable || rank.save_and_wait());
      for (const Index step : {2, 3}) {
        rank.train_to(step);
        snapshot(rank);
      }
    });
  }
  /// Of rank `rank`, the file with what it has of `step`.
  std::string shard_of(int rank, Index step) const { return shard_in(directory(), rank, step); }
  static std::string shard_in(const std::string& directory, int rank, Index step) {
    for (const char* slot : {"-a", "-b"})
      for (const char* suffix : {".json", ".unvoted"}) {
        const std::string path = directory + "/rank-0000" + std::to_string(rank) + slot;
        if (!fs::exists(path + suffix)) continue;
        if (store::parse_slot_header(read_whole(path + suffix, block_bytes)).step == step)
          return path + ".h5";
      }
    return "";
  }
  /// The snapshots of nodes that are not used for a while, and come back with what they had.
  class Absent {
   public:
    explicit Absent(const std::string& directory) : directory_(directory) {
      fs::copy(directory_, away_ / "snapshots");
    }
    void return_to_the_job() const {
      fs::remove_all(directory_);
      fs::copy(away_ / "snapshots", directory_);
    }

   private:
    const std::string directory_;
    ScratchDirectory away_;
  };
  static void flip_byte(const std::string& path, Index at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
  }

  const std::string key_ = "test-" + std::to_string(::getpid());
  ScratchDirectory folder_;
};

}  // namespace trireme::testing
