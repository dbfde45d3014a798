// The Checkpointer on ranks as threads: every layout loads what any other saved, while training
// continues.
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "runtime/store/steps.h"
#include "tests/checkpoint/checkpoint_ranks.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using namespace testing;
using ::testing::ElementsAre;
namespace fs = std::filesystem;

TEST(Checkpointer, EveryLayoutLoadsWhatAnyOtherSaved) {
  std::vector<CheckpointJob> jobs;
  for (const Layout& layout : layouts())
    for (const Update update : updates()) jobs.push_back({layout, update});
  for (const Layout& layout : mixed_layouts())
    for (const Update update : updates()) jobs.push_back(in_bf16({layout, update}));
  jobs.push_back({.layout = {3, 2, 1, 2}, .update = Update::sharded, .shares = {1, 0, 2}});
  jobs.push_back(in_bf16({.layout = {2, 2, 2, 1}, .update = Update::sharded, .shares = {1, 4}}));
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const ScratchDirectory folder;
    const Tensors saved = save_step_3(jobs[i], folder / "run");
    for (std::size_t distance = 0; distance < jobs.size(); distance += 3) {
      const CheckpointJob& other = jobs[(i + distance) % jobs.size()];
      SCOPED_TRACE(describe(jobs[i].layout) + " -> " + describe(other.layout));
      Gathered loaded;
      on_threads(loading_from(folder / "run", other), [&](CheckpointRank& rank) {
        rank.load();
        EXPECT_EQ(rank.progress.step, 3);
        EXPECT_EQ(rank.progress.samples, 24);
        EXPECT_EQ(rank.progress.updates, 3);
        EXPECT_EQ(rank.steps.optimizer->updates(), 3);
        EXPECT_EQ(rank.padding(), 0);
        rank.add_state_to(loaded);
      });
      EXPECT_EQ(loaded.disagreements(), 0);
      EXPECT_EQ(loaded.tensors(), saved);
    }
  }
}

TEST(Checkpointer, AResumedRunIsBitwiseTheUninterruptedOne) {
  std::vector<CheckpointJob> jobs;
  for (const Layout& layout : mixed_layouts()) {
    jobs.push_back({layout, Update::sharded});
    jobs.push_back(in_bf16(jobs.back()));
  }
  for (const CheckpointJob& job : jobs) {
    SCOPED_TRACE(describe(job.layout) + (job.options.bf16 ? " in bf16" : ""));
    const ScratchDirectory folder;
    save_step_3(job, folder / "run");
    Gathered straight, resumed;
    on_threads(job, [&](CheckpointRank& rank) {
      rank.train_to(6);
      rank.add_state_to(straight);
    });
    on_threads(loading_from(folder / "run", saving_to(folder / "run", job)),
               [&](CheckpointRank& rank) {
                 rank.load();
                 rank.train_to(6);
                 rank.add_state_to(resumed);
               });
    EXPECT_EQ(resumed.tensors(), straight.tensors());
  }
}

TEST(Checkpointer, WhatIsSavedIsTheStateAtTheCallWhateverTrainingDoesMeanwhile) {
  for (const Index buffer : {Index{0}, Index{1}}) {  // the whole share, and less than it
    const ScratchDirectory folder;
    CheckpointJob job{{2, 2, 2, 2}, Update::sharded};
    job.options.checkpoint.save_buffer = buffer;
    Gathered at_call, loaded;
    on_threads(saving_to(folder / "run", job), [&](CheckpointRank& rank) {
      rank.train_to(2);
      rank.add_state_to(at_call);
      rank.save();
      rank.train_to(7);
      EXPECT_TRUE(rank.finish());
      EXPECT_EQ(rank.durable().newest(), 2);
    });
    on_threads(loading_from(folder / "run"), [&](CheckpointRank& rank) {
      rank.load();
      EXPECT_EQ(rank.progress.step, 2);
      rank.add_state_to(loaded);
    });
    EXPECT_EQ(loaded.tensors(), at_call.tensors());
  }
}

TEST(Checkpointer, PollAloneBringsASaveToItsEnd) {
  const ScratchDirectory folder;
  on_threads(saving_to(folder / "run", {{4, 1, 2, 1}}), [&](CheckpointRank& rank) {
    rank.train_to(1);
    rank.save();
    while (rank.durable().newest() != 1) {  // or the test's time is over
      rank.checkpointer.poll();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    rank.steps.mesh.world().barrier();
  });
  EXPECT_THAT(steps_in(folder / "run"), ElementsAre(1));
}

TEST(Checkpointer, PollAllocatesNothingWhileNothingHappens) {
  const ScratchDirectory folder;
  on_threads(saving_to(folder / "run", {{2, 1, 2, 1}}), [&](CheckpointRank& rank) {
    rank.train_to(1);
    EXPECT_TRUE(rank.save_and_wait());
    const long before = test::allocations_of_this_thread();
    for (int i = 0; i < 100; ++i) rank.checkpointer.poll();
    EXPECT_EQ(test::allocations_of_this_thread(), before);
  });
}

TEST(Checkpointer, SavesBackToBackPassOnATransportThatDelaysAndReordersAndOverNodes) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const ScratchDirectory folder;
    CheckpointJob job{{2, 2, 2, 1}, Update::sharded};
    Gathered last, loaded;
    on_threads(saving_to(folder / "run", job),
               [&](CheckpointRank& rank) {
                 for (Index step = 1; step <= 5; ++step) {
                   rank.train_to(step);
                   rank.save();
                 }
                 EXPECT_TRUE(rank.finish());
                 rank.add_state_to(last);
               },
               {.hostile_seed = seed, .ranks_per_node = 3, .reach = ThreadReachable::allocated});
    EXPECT_THAT(steps_in(folder / "run"), ElementsAre(5, 4, 3, 2, 1));
    on_threads(loading_from(folder / "run", job),
               [&](CheckpointRank& rank) {
                 rank.load();
                 rank.add_state_to(loaded);
               },
               {.hostile_seed = seed, .ranks_per_node = 3, .reach = ThreadReachable::allocated});
    EXPECT_EQ(loaded.tensors(), last.tensors());
  }
}

TEST(Checkpointer, SavesEveryIntervalAndKeepsTheLast) {
  const ScratchDirectory folder;
  CheckpointJob job = saving_to(folder / "run", {{2, 1, 1, 1}});
  job.options.checkpoint.save_interval = 2;
  job.options.checkpoint.keep_last = 2;
  job.options.checkpoint.async_save = false;
  on_threads(job, [&](CheckpointRank& rank) {
    for (Index step = 1; step <= 8; ++step) {
      rank.train_to(step);
      EXPECT_EQ(rank.durable().due(step), step % 2 == 0);
      if (rank.durable().due(step)) rank.save();
    }
    const auto saved_at = fs::last_write_time(folder / "run/step-000008/manifest.json");
    EXPECT_TRUE(rank.save_and_wait());  // step 8 is saved already: nothing happens
    EXPECT_EQ(fs::last_write_time(folder / "run/step-000008/manifest.json"), saved_at);
    EXPECT_EQ(rank.durable().newest(), 8);
  });
  EXPECT_THAT(steps_in(folder / "run"), ElementsAre(8, 6));
}

TEST(Checkpointer, DeletesAtItsStartWhatAKilledJobDidNotGetTo) {
  const ScratchDirectory folder;
  save_three(folder / "run");
  CheckpointJob job = loading_from(folder / "run", saving_to(folder / "run", {{2, 1, 1, 1}}));
  job.options.checkpoint.keep_last = 2;
  on_threads(job, [](CheckpointRank& rank) {
    rank.load();
    rank.finish();
  });
  EXPECT_EQ(steps_in(folder / "run").size(), 2u);
}

TEST(Checkpointer, FinetuneTakesParametersOnlyAndNoLoadOptimAlsoProgress) {
  const ScratchDirectory folder;
  const Tensors saved = save_step_3({{2, 1, 2, 1}}, folder / "run");
  for (const bool finetune : {true, false}) {
    CheckpointJob job = loading_from(folder / "run", {{1, 2, 1, 1}});
    job.options.checkpoint.finetune = finetune;
    job.options.checkpoint.load_optimizer = false;
    if (finetune) job.options.seed = 99;  // not compared
    Gathered loaded;
    on_threads(job, [&](CheckpointRank& rank) {
      rank.load(NamedSource(finetune ? "other data" : "0 to 100 of 100"));
      EXPECT_EQ(rank.progress.step, finetune ? 0 : 3);
      EXPECT_EQ(rank.progress.samples, finetune ? 0 : 24);
      EXPECT_EQ(rank.steps.optimizer->updates(), 0);
      rank.add_state_to(loaded);
    });
    for (const auto& [name, values] : loaded.tensors())
      if (name.find("moment/") == std::string::npos) {
        EXPECT_EQ(values, saved.at(name)) << name;
      } else {
        for (const float value : values) ASSERT_EQ(value, 0) << name;
      }
  }
}

TEST(Checkpointer, AJobThatDoesNotTrainTakesParametersWhateverTheDataSeedAndOptimizerWere) {
  const ScratchDirectory folder;
  const Tensors saved = save_step_3({{2, 1, 2, 1}}, folder / "run");
  CheckpointJob job = loading_from(folder / "run", {{1, 2, 1, 1}});
  job.options.train_iters = 0;
  job.options.seed = 99;
  job.options.optimizer.kind = OptimizerOptions::Kind::sgd;
  Gathered loaded;
  on_threads(job, [&](CheckpointRank& rank) {
    EXPECT_EQ(rank.checkpointer.load_parameters().value().step, 0);
    rank.add_state_to(loaded);
  });
  int parameters = 0;
  for (const auto& [name, values] : loaded.tensors())
    if (saved.count(name) > 0 && name.find('/') == std::string::npos) {
      EXPECT_EQ(values, saved.at(name)) << name;
      ++parameters;
    }
  EXPECT_GT(parameters, 5);
}

TEST(Checkpointer, AJobThatDoesNotTrainNeedsACheckpointWhereLoadIsGiven) {
  const ScratchDirectory folder;
  on_threads(loading_from(folder.path(), {{2, 1, 1, 1}}), [](CheckpointRank& rank) {
    EXPECT_THROW(rank.checkpointer.load_parameters(), ConfigurationError);
  });
}

TEST(Checkpointer, ARunThatStartsWhereAnotherOneHasSavedSetsItsStepsAside) {
  const ScratchDirectory folder;
  save_three(folder / "run");
  CheckpointJob job = saving_to(folder / "run", {{2, 1, 1, 1}});
  job.options.checkpoint.keep_last = 1;
  on_threads(job, [&](CheckpointRank& rank) {
    rank.load();  // without --load: from scratch
    EXPECT_EQ(rank.progress.step, 0);
    rank.train_to(1);
    EXPECT_TRUE(rank.save_and_wait());
  });
  EXPECT_THAT(steps_in(folder / "run"), ElementsAre(1));
  int aside = 0;
  for (const auto& entry : fs::directory_iterator(folder / "run"))
    aside += entry.path().string().find(".aside-") != std::string::npos ? 1 : 0;
  EXPECT_EQ(aside, 3);
}

TEST(Checkpointer, AJobThatGoesBackSetsNewerStepsAsideOnlyWhenItTrains) {
  const ScratchDirectory folder;
  save_three(folder / "run");
  const std::vector<Index> saved = steps_in(folder / "run");
  ASSERT_EQ(saved.size(), 3u);
  CheckpointJob job = saving_to(folder / "run", {{2, 1, 1, 1}});
  job.options.checkpoint.load = folder / "run";
  job.options.checkpoint.ckpt_step = saved.back();
  for (const bool trains : {false, true}) {
    job.options.train_iters = saved.back() + (trains ? 1 : 0);
    on_threads(job, [&](CheckpointRank& rank) { rank.load(); });
    EXPECT_EQ(steps_in(folder / "run"), trains ? std::vector<Index>{saved.back()} : saved);
  }
}

/// The directory goes away and comes back: what a failing disk looks like to root.
TEST(Checkpointer, AFailedSaveLeavesTrainingAndOldStepsAndTheNextOneWorks) {
  const ScratchDirectory folder;
  const std::string run = folder / "run", away = folder / "away";
  on_threads(saving_to(run, {{2, 1, 2, 1}, Update::sharded}), [&](CheckpointRank& rank) {
    Communicator& world = rank.steps.mesh.world();
    const auto on_rank_0 = [&](auto&& f) {
      world.barrier();
      if (world.rank() == 0) f();
      world.barrier();
    };
    rank.train_to(1);
    EXPECT_TRUE(rank.save_and_wait());
    on_rank_0([&] {
      fs::rename(run, away);
      std::ofstream(run) << "in the way";
    });
    for (const Index step : {2, 3}) {
      rank.train_to(step);
      EXPECT_FALSE(rank.save_and_wait());
      EXPECT_EQ(rank.durable().failures(), step - 1);
      EXPECT_EQ(rank.durable().newest(), 1);
    }
    on_rank_0([&] {
      fs::remove(run);
      fs::rename(away, run);
    });
    rank.train_to(4);
    EXPECT_TRUE(rank.save_and_wait());
    EXPECT_EQ(rank.durable().failures(), 0);
    EXPECT_EQ(rank.durable().newest(), 4);
  });
  EXPECT_THAT(steps_in(run), ElementsAre(4, 1));
  on_threads(loading_from(run), [](CheckpointRank& rank) {
    rank.load();
    EXPECT_EQ(rank.progress.step, 4);
  });
}

TEST(Checkpointer, AJobThatHasLostItsLeaseCommitsNothingMore) {
  const ScratchDirectory folder;
  const std::string run = folder / "run";
  on_threads(saving_to(run), [&](CheckpointRank& rank) {
    rank.train_to(1);
    EXPECT_TRUE(rank.save_and_wait());
    std::ofstream(run + "/lock") << "of another job";
    rank.train_to(2);
    EXPECT_FALSE(rank.save_and_wait());
    EXPECT_EQ(rank.durable().failures(), 1);
    EXPECT_EQ(rank.durable().newest(), 1);
  });
  EXPECT_THAT(steps_in(run), ElementsAre(1));
}

}  // namespace
}  // namespace trireme
