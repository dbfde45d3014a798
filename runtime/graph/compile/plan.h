// Plan: the work of one stage of a graph as a linear list of steps, and the offset of every byte.
//   cut        which node runs on which stage
//   program    load, forward ..., send, receive, backward with recomputation ..., finish
//   lifetimes  instances of values, from definition to last use, over the steps
//   offsets    in two arenas: slot (kept from forward to backward, one per micro-batch in flight;
//              transfer regions too) and scratch (dead at the end of forward or backward, shared by
//              all slots and chunks)
// docs/concepts/graph.md explains the rules.
//
// Not installed; modules above may include it.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme {

/// Which stage each node runs on. Stages are cut at block boundaries, balanced by cost over speed.
struct StageCut {
  int stages = 1;
  std::vector<int> stage_of_node;
  std::vector<std::set<int>> holders;  // per parameter: stages that use it; the lowest one owns it
  std::vector<double> cost;            // per stage, in FLOPs of forward and backward
  /// Per stage: the pipeline rank that runs it. Empty: stage s on rank s modulo their number.
  std::vector<int> rank_of_stage;
};
/// `speeds`: relative speed per stage; empty: equal. Throws: Error when there are fewer blocks than
/// stages.
StageCut cut_stages(const Graph& graph, const Values& results, int stages,
                    const std::vector<double>& speeds = {});

/// Deals blocks of such costs in order and returns the stage of each. `speeds`: one per stage; no
/// more than there are blocks.
std::vector<int> deal_blocks(const std::vector<double>& cost, const std::vector<double>& speeds);

/// Per node. Nodes outside of blocks belong to the block before them, those before the first block
/// to the first.
std::vector<int> block_of_nodes(const Graph& graph);

struct PlanOptions {
  enum class Mode { training, forward_only };
  /// split: Executor::backward can compute input and parameter gradients in separate calls
  /// (zero-bubble schedules); values that both need stay in the slot until both have run.
  enum class Backward { whole, split };
  Mode mode = Mode::training;
  Backward backward = Backward::whole;
  bool share = true;    // use the ops' permissions
  bool pack = true;     // let instances with disjoint lifetimes overlap
  bool poison = false;  // fill every instance with NaN at the end of its life (tests)
  bool guard = false;   // guard bytes after every instance detect overruns (--check-finite)
};

struct Instance {
  enum class Arena { slot, scratch };
  std::string name;
  DType dtype;
  Index bytes;
  int begin, end;  // first and last step of its life
  Arena arena;
  Index offset;
};

/// A range of the slot that is sent to or received from a neighbour stage as one message: the roots
/// in `names`, packed one after the other. Both sides agree on order and bytes by construction.
struct Transfer {
  Index offset = 0, bytes = 0;
  std::vector<std::string> names;
};

struct PlanBytes {
  Index slot = 0;  // one slot
  Index scratch = 0;
  Index unpacked = 0;    // sum of all instances, as if nothing shared or overlapped
  Index parameters = 0;  // local, this stage, in the compute type
};

/// What plans of all stages of a cut graph follow from. Copies are cheap, as those of plans.
class PlanBasis {
 public:
  /// `results`: the loss (training: a scalar, and behind it any metrics), or what forward-only runs
  /// compute.
  PlanBasis(const Graph& graph, const Values& results, const StageCut& cut, PlanOptions::Mode mode);

  struct State;
  const State& state() const { return *state_; }  // for Plan

 private:
  std::shared_ptr<const State> state_;
};

/// Copies are cheap: they share what they hold, which never changes.
class Plan {
 public:
  /// The plan of `stage`.
  Plan(const Graph& graph, const Values& results, const StageCut& cut, int stage,
       PlanOptions options = {});
  /// `basis`: of these and options.mode, made once for several stages.
  Plan(const Graph& graph, const Values& results, const StageCut& cut, const PlanBasis& basis,
       int stage, PlanOptions options);
  /// Makes the plan of `stage`, which is alike (alike.h): the same as `like`, names too, but for
  /// its number and its parameters. No executor runs it.
  Plan(const Plan& like, int stage, std::vector<int> parameters);

  int stage() const;
  int stages() const;
  const PlanBytes& bytes() const;
  /// Type of parameters and activations (Graph::compute).
  DType compute() const;
  /// Listed in each call.
  std::vector<Instance> instances() const;
  /// The messages from the previous stage and to the next one, and those of their gradients.
  const Transfer& receive_values() const;
  const Transfer& send_values() const;
  const Transfer& receive_gradients() const;  // from the next stage
  const Transfer& send_gradients() const;     // to the previous stage
  /// Parameters of this stage (graph ids) in the order in which their gradients become ready, those
  /// without a gradient first.
  const std::vector<int>& parameters() const;
  /// Per entry of parameters(): whether its gradient is one term per tensor rank, to be summed over
  /// the tensor axis.
  const std::vector<bool>& sums_over_tensor() const;
  /// Graph inputs (positions in Graph::inputs()) that this stage loads.
  const std::vector<int>& inputs() const;
  /// FLOPs of one micro-batch, forward and backward without recomputation.
  double flops() const;
  /// What each step of one micro-batch does, in their order (ExecutorHooks::step_queued).
  const std::vector<StepWork>& work() const;
  int results() const;
  /// Whether this stage computes result i.
  bool computes(int i) const;
  /// Whether backward computes result i (Op::forward_in_backward). False on stages that do not
  /// compute it.
  bool result_in_backward(int i = 0) const;
  /// The table of --dump-plan.
  std::string describe() const;
  /// Every step with its operands, for debugging.
  std::string describe_steps() const;

  struct State;
  const State& state() const;  // for Executor

 private:
  /// What a plan has of its own where the state is that of another stage.
  struct Own {
    int stage;
    std::vector<int> parameters;
  };
  std::shared_ptr<const State> state_;
  std::shared_ptr<const Own> own_;  // null: the state is of this stage
};

}  // namespace trireme
