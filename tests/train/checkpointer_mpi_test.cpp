// Checkpoints over processes: every layout of this number of ranks, and one rank, load each
// other's; a resumed run is the uninterrupted one bit by bit.
#include <filesystem>
#include <fstream>

#include "trireme/comm/agree.h"

#include "runtime/store/read/reader.h"
#include "runtime/store/steps.h"
#include "tests/checkpoint/checkpoint_ranks.h"
#include "tests/support/scratch_directory.h"
#include "tests/train/transformer_rank.h"

namespace trireme {
namespace {

using namespace testing;

/// A folder of rank 0 that all ranks know; gone when all have left it.
class SharedFolder {
 public:
  explicit SharedFolder(Mesh& mesh) : mesh_(mesh) {
    const auto device = open_cpu();
    const auto stream = device->make_stream();
    if (mesh.rank() == 0) folder_ = std::make_unique<ScratchDirectory>();
    path_ = gather_strings({mesh, *stream}, folder_ ? *folder_ / "" : "").front();
  }
  ~SharedFolder() { mesh_.world().barrier(); }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + name; }

 private:
  Mesh& mesh_;
  std::unique_ptr<ScratchDirectory> folder_;
  std::string path_;
};

std::unique_ptr<Mesh> world_of(const Layout& layout) {
  return mpi_session().make_mesh(layout.shape());
}

std::vector<CheckpointJob> fitting_jobs() {
  std::vector<Layout> fitting = layouts();
  fitting.push_back({3, 1, 1, 1});
  fitting.push_back({4, 2, 1, 1});
  std::vector<CheckpointJob> jobs;
  for (const Layout& layout : fitting) {
    if (layout.shape().size() != mpi_session().size()) continue;
    for (const Update update : updates()) jobs.push_back({layout, update});
    jobs.push_back(in_bf16({layout, Update::sharded}));
  }
  return jobs;
}

/// What every layout reaches at step 3: gradients of the tiny model are small integers, so sums are
/// exact.
const Gathered& state_at_step_3() {
  static Gathered state;
  if (state.tensors().empty()) {
    const auto self = make_self_mesh();
    CheckpointRank rank(*self, {});
    rank.train_to(3);
    rank.add_state_to(state);
  }
  return state;
}

/// Elements of this rank that are not those of step 3.
int differences(const CheckpointRank& rank) {
  const auto count = [&](const std::string& prefix, const std::vector<FlatExtent>& extents,
                         const float* data) {
    int different = 0;
    for (const FlatExtent& flat : extents) {
      const std::vector<float>& expected =
          state_at_step_3().tensors().at(prefix + flat.extent.name);
      for_each_element(flat, [&](Index i, Index offset) {
        different += data[offset] != expected[static_cast<std::size_t>(i)] ? 1 : 0;
      });
    }
    return different;
  };
  const FlatParameters& flat = *rank.steps.model.flat;
  int different = count("", flat.master_extents(), flat.master_data());
  for (const Optimizer::StateTensor& tensor : rank.steps.optimizer->state_tensors())
    different += count(tensor.name + "/", flat.state_extents(), tensor.data);
  return different;
}

void save_step_3(Mesh& mesh, const CheckpointJob& job, const std::string& directory) {
  CheckpointRank rank(mesh, saving_to(directory, job));
  rank.train_to(3);
  EXPECT_TRUE(rank.save_and_wait());
}

void expect_step_3(Mesh& mesh, const CheckpointJob& job, const std::string& directory) {
  CheckpointRank rank(mesh, loading_from(directory, job));
  rank.load();
  EXPECT_EQ(rank.progress.step, 3);
  EXPECT_EQ(rank.progress.samples, 24);
  EXPECT_EQ(rank.progress.updates, 3);
  EXPECT_EQ(rank.padding(), 0);
  EXPECT_EQ(differences(rank), 0);
}

TEST(CheckpointerOverMpi, EveryLayoutAndOneRankLoadEachOthersSteps) {
  const std::vector<CheckpointJob> jobs = fitting_jobs();
  ASSERT_FALSE(jobs.empty());
  const auto everyone = world_of(jobs.front().layout);
  const SharedFolder folder(*everyone);
  if (everyone->rank() == 0) save_step_3(*make_self_mesh(), {}, folder / "one");
  everyone->world().barrier();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    SCOPED_TRACE(describe(jobs[i].layout));
    const std::string directory = folder / str("run", i);
    save_step_3(*world_of(jobs[i].layout), jobs[i], directory);
    expect_step_3(*world_of(jobs[i].layout), jobs[i], folder / "one");
    for (const CheckpointJob& other : jobs)
      expect_step_3(*world_of(other.layout), other, directory);
    if (everyone->rank() == 0) expect_step_3(*make_self_mesh(), {}, directory);
    everyone->world().barrier();
  }
}

TEST(CheckpointerOverMpi, ARankThatCannotWriteFailsTheSaveOfAllAndTheNextOneWorks) {
  const CheckpointJob job = fitting_jobs().back();
  const auto mesh = world_of(job.layout);
  const SharedFolder folder(*mesh);
  CheckpointRank rank(*mesh, saving_to(folder / "run", job));
  rank.train_to(1);
  EXPECT_TRUE(rank.save_and_wait());
  rank.train_to(2);
  // In the way of the last rank's shard: a directory of its name, where the save will be.
  const int last = mesh->shape().size() - 1;
  const std::string run = read_manifest(folder / "run/step-000001").run;
  if (mesh->rank() == last)
    std::filesystem::create_directories(unfinished_path(folder / "run", 2, run) + "/" +
                                        shard_name(last));
  mesh->world().barrier();
  EXPECT_FALSE(rank.save_and_wait());
  EXPECT_EQ(rank.durable().failures(), 1);
  EXPECT_EQ(rank.durable().newest(), 1);
  rank.train_to(3);
  EXPECT_TRUE(rank.save_and_wait());
  EXPECT_EQ(list_steps(folder / "run").size(), 2u);
}

void fit(Options options) {
  options.learning_rate.decay_iters = 8;
  options.log_level = LogLevel::quiet;
  RandomTokens data;
  TransformerRank(options).trainer().fit(data);
}

/// Every tensor of a step, as bytes.
std::map<std::string, std::vector<std::byte>> tensors_of(const std::string& directory) {
  const Manifest manifest = read_manifest(directory);
  std::map<std::string, std::vector<std::byte>> all;
  std::vector<Wanted> wanted;
  for (const Manifest::Tensor& tensor : manifest.tensors) {
    std::vector<std::byte>& bytes = all[tensor.name];
    bytes.resize(static_cast<std::size_t>(tensor.global.count() * size_bytes(tensor.dtype)));
    Box whole{tensor.global, tensor.global};
    for (int d = 0; d < whole.begin.dims(); ++d) whole.begin[d] = 0;
    wanted.push_back({tensor.name, tensor.dtype, tensor.global, whole, bytes.data()});
  }
  read_boxes(directory, manifest, wanted, 1);
  return all;
}

/// Loss and norm of each line, as they are written.
std::vector<std::string> losses_of(const std::string& metrics) {
  std::ifstream in(metrics);
  std::vector<std::string> all;
  for (std::string line; std::getline(in, line);)
    all.push_back(line.substr(0, line.find("\"lr\"")));
  return all;
}

void expect_exact_resume(Options options) {
  const auto everyone = mpi_session().make_mesh(widest_mesh(mpi_session().size()));
  const SharedFolder folder(*everyone);
  options.metrics = folder / "straight.jsonl";
  options.train_iters = 8;
  options.checkpoint.save = folder / "straight";
  fit(options);
  options.metrics = folder / "resumed.jsonl";
  options.checkpoint.save = options.checkpoint.load = folder / "resumed";
  options.checkpoint.save_interval = 2;
  for (const Index last : {3, 5, 8}) {
    options.train_iters = last;
    fit(options);
  }
  const auto straight = losses_of(folder / "straight.jsonl");
  EXPECT_EQ(straight.size(), 8u);
  EXPECT_EQ(losses_of(folder / "resumed.jsonl"), straight);
  EXPECT_EQ(tensors_of(folder / "resumed/step-000008"),
            tensors_of(folder / "straight/step-000008"));
}

TEST(CheckpointerOverMpi, AResumedRunHasTheLossesAndTheStateOfTheUninterruptedOne) {
  expect_exact_resume({});
}
// The f32 masters are what is saved; each rank's compute copy is made of them again.
TEST(CheckpointerOverMpi, AResumedRunInBf16HasTheLossesAndTheStateOfTheUninterruptedOne) {
  Options options;
  options.bf16 = true;
  expect_exact_resume(options);
}

}  // namespace
}  // namespace trireme
