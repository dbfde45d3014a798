// GradientReducer: sums gradients over the mesh, bucket by bucket, while the backward pass computes
// them. Sums go over the tensor axis first (where each rank has one term), then over data, tied
// holders last. Everything starts at points of the program that are the same on all members of a
// group, never when an operation happens to be seen complete, because communicators require one
// order.
//
// Not installed; modules above may include it.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "trireme/comm/mesh.h"

#include "runtime/graph/executor.h"
#include "runtime/optim/flat_parameters.h"
#include "runtime/optim/step_hashes.h"

namespace trireme {

/// When the reductions of the last step ran. Times in ms since the reducer was made.
struct ReductionRecord {
  struct Entry {
    int bucket;
    Index boundary;   // op boundaries of this step before its first reduction started
    double start_ms;  // its first reduction started
    double done_ms;   // waited for, by finish()
  };
  std::vector<Entry> entries;  // in the order of starts; only buckets that need a reduction
  Index boundaries = 0;        // op boundaries of the whole step
  double backward_end_ms = 0;  // finish() was called
};

/// By FlatLayout::ties(); null: not a holder.
using TieGroups = std::vector<std::unique_ptr<Communicator>>;

/// Collective over the world: tied parameters get communicators of their own.
TieGroups split_ties(const FlatLayout& flat, Mesh& mesh);

class GradientReducer {
 public:
  /// `ties`: of split_ties, borrowed.
  GradientReducer(const FlatParameters& flat, Mesh& mesh, Stream& stream, const TieGroups& ties);
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Reports to the reducer what the executor of one chunk does. A derived class may do more.
  class Hooks : public ExecutorHooks {
   public:
    /// `reducer`: null for an executor without gradients.
    Hooks(GradientReducer* reducer, int chunk);
    void gradient_ready(int position) override;
    void op_boundary() override;

   private:
    GradientReducer* reducer_;
    const std::vector<int>* bucket_of_ = nullptr;
  };
  /// Zeros the gradients; call before the first micro-batch of a step.
  void begin_step();
  /// Advances started reductions; never blocks. Hooks call it at op boundaries.
  void progress();
  /// Call after the last backward of the step: starts the remaining reductions and waits for all.
  /// Afterwards the gradients of FlatLayout::updated() are summed over the whole mesh, with the
  /// same bits on all ranks that hold them.
  void finish();

  /// From the next step on `hashes` hashes the gradients of each bucket before they are summed;
  /// null: nothing does.
  void hash_terms_with(StepHashes* hashes) { hashes_ = hashes; }

  const ReductionRecord& record() const { return record_; }

 private:
  struct Progress {   // state of one bucket in this step
    int waiting = 0;  // gradients that are not ready yet
    bool started = false;
    Ticket tensor, data, tie;
    int entry = -1;  // in record_.entries
  };
  void gradient_ready(int bucket);
  void start(int bucket);
  void start_pending();
  void start_data(int bucket);
  void start_tie(int bucket);
  void note_start(int bucket);
  double now_ms() const;

  const FlatParameters& flat_;
  Communicator& tensor_;
  Communicator& data_;
  Stream& stream_;
  const TieGroups& ties_;
  std::vector<int> uses_;           // per bucket: gradients to wait for
  std::vector<Progress> progress_;  // per bucket
  int pending_ = -1;                // bucket whose sum over the tensor axis is under way
  ReductionRecord record_;
  StepHashes* hashes_ = nullptr;
  std::chrono::steady_clock::time_point made_;
};

}  // namespace trireme
