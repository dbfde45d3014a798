#include "tests/support/gpt_ranks.h"

#include <gtest/gtest.h>

#include "examples/train_gpt.h"
#include "runtime/job/layout/plan_layout.h"
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

/// train_gpt and its command line.
class Started {
 public:
  explicit Started(const std::string& options) : words_(split_words(options)) {
    words_.insert(words_.begin(), "train_gpt");
    for (std::string& word : words_) argv_.push_back(word.data());
  }
  job::Program program() {
    return {static_cast<int>(argv_.size()), argv_.data(), gpt_.application(), train_};
  }

 private:
  TrainGpt gpt_;
  std::function<void(Context&)> train_ = [this](Context& context) { gpt_.train(context); };
  std::vector<std::string> words_;
  std::vector<char*> argv_;
};

/// Owns a mesh and what is put before it.
class DecoratedMesh final : public ForwardingMesh {
 public:
  DecoratedMesh(std::unique_ptr<Mesh> real, std::unique_ptr<Mesh> before)
      : ForwardingMesh(*before), real_(std::move(real)), before_(std::move(before)) {}

 private:
  std::unique_ptr<Mesh> real_, before_;
};

std::unique_ptr<Mesh> shaped(Mesh& ranks, const MeshShape& shape, const Decorate& decorate) {
  std::unique_ptr<Mesh> mesh = std::make_unique<ShapedMesh>(ranks, shape);
  if (!decorate) return mesh;
  std::unique_ptr<Mesh> before = decorate(*mesh);
  return std::make_unique<DecoratedMesh>(std::move(mesh), std::move(before));
}

void run_ranks(int ranks, const std::string& options, const Decorate& decorate) {
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
             .make_mesh = [&](const MeshShape& shape) { return shaped(mesh, shape, decorate); },
             .page = page},
            options);
      },
      transport);
}

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
  Started started(options);
  job::RankResources resources;
  job::run_rank(rank, started.program(), resources);
}

std::string train_gpt_on_threads(int ranks, const std::string& options, const Decorate& decorate) {
  std::string failure;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  try {
    run_ranks(ranks, "--device cpu " + options, decorate);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  // The log of a job that does not train goes to stderr.
  std::string printed = ::testing::internal::GetCapturedStderr();
  printed += ::testing::internal::GetCapturedStdout();
  require(failure.empty(), ranks, " ranks, ", options, ":\n", failure, "\n", printed);
  return printed;
}

std::vector<std::string> problems_of(int ranks, const std::string& options) {
  Started started(options);
  const job::Program program = started.program();
  job::LayoutOptions read(program.application);
  Problems problems;
  job::read_layout_options(program, ranks, read, problems);
  return problems.all();
}

}  // namespace trireme::test
