#include "tests/support/gpt_ranks.h"

#include "examples/train_gpt.h"
#include "runtime/job/run_rank.h"
#include "tests/support/forwarding_mesh.h"

namespace trireme::test {
namespace {

/// A mesh of another shape over the ranks of one that exists.
class ShapedMesh final : public ForwardingMesh {
 public:
  ShapedMesh(Mesh& ranks, const MeshShape& shape) : ForwardingMesh(ranks), shape_(shape) {
    require(shape.size() == ranks.shape().size(), "a mesh of ", shape.size(), " ranks on ",
            ranks.shape().size());
    for (const auto& [axis, size] : shape.axes())
      axes_.push_back(ranks.split(shape.group(ranks.rank(), axis).front(), name(axis)));
  }
  const MeshShape& shape() const override { return shape_; }
  Communicator& axis(Axis axis) override { return *axes_[shape_.index(axis)]; }

 private:
  MeshShape shape_;
  std::vector<std::unique_ptr<Communicator>> axes_;  // in the order of the shape
};

}  // namespace

std::vector<std::string> split_words(const std::string& line) {
  std::vector<std::string> words;
  bool quoted = false, within = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (!quoted && (c == ' ' || c == '\t')) {
      within = false;
      continue;
    }
    if (!within) words.emplace_back();
    within = true;
    if (c != '\'') words.back() += c;
  }
  require(!quoted, "a quote has no end in: ", line);
  return words;
}

void train_gpt(const job::StartedRank& rank, const std::string& options) {
  std::vector<std::string> words = split_words(options);
  words.insert(words.begin(), "train_gpt");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  TrainGpt program;
  const std::function<void(Context&)> train = [&](Context& context) { program.train(context); };
  job::RankResources resources;
  job::run_rank(rank, {static_cast<int>(argv.size()), argv.data(), program.application(), train},
                resources);
}

void train_gpt_on_threads(int ranks, const std::string& options) {
  ThreadTransport transport;
  transport.reach = ThreadReachable::allocated;
  run_on_threads(
      MeshShape(ranks, 1, 1),
      [&](Mesh& mesh) {
        observe::StatusPage page;
        train_gpt(
            {.rank = mesh.rank(),
             .ranks = ranks,
             .node_rank = mesh.rank(),
             .node_ranks = ranks,
             .make_mesh =
                 [&](const MeshShape& shape) { return std::make_unique<ShapedMesh>(mesh, shape); },
             .page = page},
            "--device cpu " + options);
      },
      transport);
}

}  // namespace trireme::test
