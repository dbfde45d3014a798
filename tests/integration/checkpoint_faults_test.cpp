// Disks that fail under a running job, and checkpoints that were damaged since: training continues,
// nothing partial becomes visible, and what is loaded is a whole step or nothing. Faults come from
// tests/io_shim; a really full disk is in checkpoint_full_disk_test.cpp.

#include <filesystem>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/store/steps.h"
#include "tests/support/saving_jobs.h"
#include "tests/support/toy_checkpoint.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

struct ShimCall {
  int rank;
  long number;
  std::string name, path;
};

std::vector<ShimCall> read_trace(const std::string& path) {
  std::ifstream in(path);
  std::vector<ShimCall> calls;
  ShimCall call;
  while (in >> call.rank >> call.number >> call.name >> call.path) calls.push_back(call);
  return calls;
}

class Faults : public SavingJobs {
 protected:
  /// Variables of the environment that put a job under the shim; its checkpoints are in `root`.
  static std::string shim(const std::string& root, const std::string& fault,
                          const std::string& more = "") {
    return str("TRIREME_SHIM_ROOT=", root, " TRIREME_SHIM_FAULT=", fault, " ", more,
               " LD_PRELOAD=" TRIREME_IO_SHIM);
  }
};

using Steps = std::vector<Index>;

/// Names in a directory of checkpoints that are no committed steps.
std::vector<std::string> leftovers(const std::string& root) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename();
    if (name.find('.') != std::string::npos || name == "lock") names.push_back(name);
  }
  return names;
}

TEST_F(Faults, OneFailedCallOfOneRankCostsOneSaveAndNothingElse) {
  const std::string clean = jobs_ / "clean", trace = jobs_ / "trace";
  jobs_.succeed(saving(clean, "", shim(clean, "EIO", "TRIREME_SHIM_TRACE=" + trace)));
  ASSERT_EQ(committed_steps(clean), (Steps{20, 15, 10, 5}));
  const StoredTensors last = read_checkpoint(directory(clean, 20));
  const std::vector<ShimCall> calls = read_trace(trace);

  const struct {
    int rank;
    std::string call, file, fault, reason;
  } faults[] = {
      {2, "fallocate", "shard-00002.h5", "ENOSPC", "No space left on device"},
      {3, "pwrite", "shard-00003.h5", "EDQUOT", "Disk quota exceeded"},
      {1, "fsync", "shard-00001.h5", "EIO", "Input/output error"},
      {1, "open", "shard-00001.h5", "EROFS", "Read-only file system"},
      {0, "write", "manifest.json", "ENOSPC", "No space left on device"},
      {0, "rename", "step-000010", "EIO", "Input/output error"},
  };
  for (const auto& fault : faults) {
    SCOPED_TRACE(str("rank ", fault.rank, " ", fault.call, " ", fault.file, " ", fault.fault));
    const auto found = std::find_if(calls.begin(), calls.end(), [&](const ShimCall& call) {
      return call.rank == fault.rank && call.name.ends_with(fault.call) &&
             call.path.find("step-000010.tmp") != std::string::npos &&
             call.path.find(fault.file) != std::string::npos;
    });
    ASSERT_NE(found, calls.end()) << read_text(trace);
    const std::string root = jobs_ / str(fault.rank, fault.call);
    const Outcome outcome = jobs_.run(
        saving(root, "",
               shim(root, fault.fault,
                    str("TRIREME_SHIM_RANK=", fault.rank, " TRIREME_SHIM_CALL=", found->number))));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_EQ(count(outcome.output, "is not saved"), 1) << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr("step 10 is not saved"), HasSubstr(fault.file),
                                      HasSubstr(fault.reason)));
    EXPECT_EQ(committed_steps(root), (Steps{20, 15, 5}));
    EXPECT_THAT(leftovers(root), testing::IsEmpty());
    expect_verified(root);
    EXPECT_EQ(first_difference(last, read_checkpoint(directory(root, 20))), "");
  }
}

TEST_F(Faults, ADiskThatStaysFullCostsAllLaterSavesButNoTraining) {
  const std::string clean = jobs_ / "clean", trace = jobs_ / "trace", root = jobs_ / "full";
  jobs_.succeed(saving(clean, "", shim(clean, "EIO", "TRIREME_SHIM_TRACE=" + trace)));
  const std::vector<ShimCall> calls = read_trace(trace);
  const auto second = std::find_if(calls.begin(), calls.end(), [](const ShimCall& call) {
    return call.rank == 2 && call.path.find("step-000010.tmp") != std::string::npos;
  });
  ASSERT_NE(second, calls.end());
  const Outcome outcome = jobs_.run(
      saving(root, "",
             shim(root, "ENOSPC+", str("TRIREME_SHIM_RANK=2 TRIREME_SHIM_CALL=", second->number))));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  for (const int step : {10, 15, 20})
    EXPECT_EQ(count(outcome.output, str("step ", step, " is not saved")), 1) << outcome.output;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("training is finished, but the last 3 saves failed: "),
                    HasSubstr("No space left on device; the newest checkpoint is that of step 5")));
  EXPECT_EQ(read_metrics(root + ".jsonl").size(), 20U);
  EXPECT_EQ(committed_steps(root), Steps{5});
  EXPECT_THAT(leftovers(root), testing::IsEmpty());
  expect_verified(root);

  jobs_.succeed(saving(root, "--load " + root));
  EXPECT_EQ(
      first_difference(read_checkpoint(directory(clean, 20)), read_checkpoint(directory(root, 20))),
      "");
}

TEST_F(Faults, InterruptedAndShortCallsAreNoFailures) {
  for (const std::string fault : {"EINTR+", "short+"}) {
    SCOPED_TRACE(fault);
    const std::string root = jobs_ / fault;
    const std::string output =
        jobs_.succeed(saving(root, "", shim(root, fault, "TRIREME_SHIM_CALL=1")));
    EXPECT_THAT(output, Not(HasSubstr("is not saved")));
    EXPECT_EQ(committed_steps(root), (Steps{20, 15, 10, 5}));
    expect_verified(root);
  }
}

TEST_F(Faults, WhereTheDiskCannotDoDirectWritesOrReserveSpaceTheJobSaysSo) {
  const struct {
    std::string fault, said;
  } lacks[] = {{"direct=EINVAL", "O_DIRECT is refused in "},
               {"direct=transfer", "O_DIRECT is refused in "},
               {"reserve=EOPNOTSUPP", "space cannot be reserved in "}};
  for (const auto& lack : lacks) {
    SCOPED_TRACE(lack.fault);
    const std::string root = jobs_ / lack.fault;
    const std::string output = jobs_.succeed(saving(root, "", shim(root, lack.fault)));
    EXPECT_EQ(count(output, lack.said + root), 1) << output;
    EXPECT_EQ(committed_steps(root), (Steps{20, 15, 10, 5}));
    expect_verified(root);
    jobs_.succeed(saving(root, "--load " + root, shim(root, lack.fault), two));
  }
}

// --- Damage that a later job meets.

/// What became of step 20 of `root`, and what a message about it must say besides "step 20".
struct Damage {
  std::string name;
  std::function<void(const std::string& step_directory)> make;
  std::string file;
  bool names_tensor;
};

class DamagedStep : public Faults {
 protected:
  DamagedStep() {
    jobs_.succeed(saving(good()));
    jobs_.succeed(saving(jobs_ / "foreign", "--seed 99"));
  }
  std::string good() const { return jobs_ / "good"; }

  /// A copy of the checkpoints with a damaged newest step.
  std::string damaged(const Damage& damage) const {
    std::string root = jobs_ / "damaged";
    fs::remove_all(root);
    fs::copy(good(), root, fs::copy_options::recursive);
    damage.make(directory(root, 20));
    return root;
  }
  std::vector<Damage> damages() const;
  std::string loading(const std::string& root, const std::string& more) const {
    return jobs_.training(two, str("--train-iters 22 --load ", root, " ", more));
  }
};

std::vector<Damage> DamagedStep::damages() const {
  // In the middle of a tensor that lies in the shard of the last rank, whichever rank reads it.
  const std::string flipped = "shard-00003.h5";
  const Manifest manifest = read_manifest(directory(good(), 20));
  Index offset = -1;
  for (const Manifest::Tensor& tensor : manifest.tensors)
    for (const Manifest::Stored& piece : tensor.pieces)
      if (manifest.files.at(static_cast<std::size_t>(piece.file)).name == flipped)
        offset = piece.offset + piece.box.count() * size_bytes(tensor.dtype) / 2;
  return {
      {"a flipped bit", [=](auto step) { flip_bit(step + "/" + flipped, offset); }, flipped, true},
      {"a missing shard", [](auto step) { fs::remove(step + "/shard-00002.h5"); }, "shard-00002.h5",
       true},
      {"a truncated shard",
       [](auto step) {
         const std::string shard = step + "/shard-00001.h5";
         fs::resize_file(shard, fs::file_size(shard) - 1);
       },
       "shard-00001.h5", true},
      {"a shard of another step",
       [this](auto step) {
         fs::copy_file(directory(good(), 15) + "/shard-00001.h5", step + "/shard-00001.h5",
                       fs::copy_options::overwrite_existing);
       },
       "shard-00001.h5", true},
      {"a shard of another job",
       [this](auto step) {
         fs::copy_file(directory(jobs_ / "foreign", 20) + "/shard-00000.h5",
                       step + "/shard-00000.h5", fs::copy_options::overwrite_existing);
       },
       "shard-00000.h5", true},
      {"a truncated manifest",
       [](auto step) {
         const std::string path = step + "/manifest.json";
         fs::resize_file(path, fs::file_size(path) / 2);
       },
       "manifest.json", false},
      {"a manifest with a flipped bit", [](auto step) { flip_bit(step + "/manifest.json", 1000); },
       "manifest.json", false},
      {"no manifest", [](auto step) { fs::remove(step + "/manifest.json"); }, "manifest.json",
       false},
      {"the manifest of another step",
       [this](auto step) {
         fs::copy_file(directory(good(), 15) + "/manifest.json", step + "/manifest.json",
                       fs::copy_options::overwrite_existing);
       },
       "step 15", false},
  };
}

TEST_F(DamagedStep, IsNamedWithItsFileAndTensorAndTheStepBeforeIsLoaded) {
  for (const Damage& damage : damages()) {
    SCOPED_TRACE(damage.name);
    const std::string root = damaged(damage), metrics = jobs_ / "metrics";
    fs::remove(metrics);
    const Outcome outcome = jobs_.run(loading(root, "--metrics " + metrics));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr("step 20: "), HasSubstr(damage.file),
                                      HasSubstr("loaded step 15 of " + root)));
    if (damage.names_tensor) {
      EXPECT_THAT(outcome.output, AnyOf(HasSubstr("parameters/"), HasSubstr("optimizer/")));
    }
    EXPECT_EQ(read_metrics(metrics).begin()->first, 16);
  }
}

TEST_F(DamagedStep, StopsTheJobThatAskedForIt) {
  const std::vector<Damage> all = damages();
  for (std::size_t i = 0; i < all.size(); i += 4) {
    const Damage& damage = all[i];
    SCOPED_TRACE(damage.name);
    const std::string root = damaged(damage);
    const Outcome outcome = jobs_.run(loading(root, "--ckpt-step 20"));
    EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "trireme error: "), 1) << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr("step 20: "), HasSubstr(damage.file),
                                      Not(HasSubstr("loaded step"))));
    EXPECT_NE(jobs_.run(CheckpointJobs::trireme("checkpoint verify --step 20 " + root)).exit_code,
              0);
  }
}

TEST_F(DamagedStep, GivesWayWhenTheJobThatFellBackComesToItAgain) {
  const std::string root = damaged(damages().front());
  jobs_.succeed(saving(root, "--load " + root));
  EXPECT_EQ(committed_steps(root), (Steps{20, 15, 10, 5}));
  EXPECT_EQ(first_difference(read_checkpoint(directory(good(), 20)),
                             read_checkpoint(directory(root, 20))),
            "");
}

TEST_F(DamagedStep, IsNamedWithAllOthersWhenNoneIsGood) {
  const std::string root = damaged(damages().front());
  for (const Index step : {5, 10, 15}) fs::remove(directory(root, step) + "/shard-00001.h5");
  const Outcome outcome = jobs_.run(loading(root, ""));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  for (const Index step : {5, 10, 15, 20})
    EXPECT_THAT(outcome.output, HasSubstr(str("- step ", step, ": ")));
}

}  // namespace
}  // namespace trireme::test
