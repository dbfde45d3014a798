// ProgramBuilder: walks a stage forward and backward and records the steps (program.cpp).
#pragma once

#include <map>
#include <set>
#include <vector>

#include "runtime/graph/compile/cut.h"
#include "runtime/graph/compile/program.h"
#include "runtime/graph/region.h"

namespace trireme::graph {

// Which values are kept from forward to backward, and which nodes run again when backward enters a
// recompute scope (rule 7). Checkpointing as in Chen et al. 2016 (arXiv:1604.06174), nested by
// scopes.

constexpr int top = -1;  // outside of all recompute scopes

/// The tree of recompute scopes.
class ScopeTree {
 public:
  explicit ScopeTree(const std::vector<int>& parents) : parents_(parents) {}
  /// Is `outer` the scope `inner`, or around it?
  bool contains(int outer, int inner) const;
  /// The innermost scope around both.
  int common(int a, int b) const;
  /// The child of `outer` on the way to `inner`.
  int child_towards(int outer, int inner) const;

 private:
  const std::vector<int>& parents_;
};

struct Recompute {
  /// Per storage root: where it is kept. `top`: from forward on. Otherwise from the entry of that
  /// scope in backward.
  std::vector<int> depth;
  /// Nodes that run again: the scopes at whose entry they do.
  std::map<int, std::set<int>> reruns;

  bool runs_again(int node, int scope) const {
    const auto found = reruns.find(node);
    return found != reruns.end() && found->second.count(scope) != 0;
  }
};

/// `reads[m]`: storage roots that the backward of node m reads. `kept`: roots that are there
/// anyway.
Recompute plan_recompute(const Graph& graph, const StageView& view,
                         const std::vector<std::vector<int>>& reads, const std::vector<char>& kept);

class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, const Values& results, const Derivative& derivative,
                 const StageView& view, const PlanOptions& options);
  Program build();

 private:
  enum class Part { both, input, parameter };
  // One input of an op that gets a gradient: how it gets there.
  struct Contribution {
    int input;
    int passes_from = -1;  // output whose gradient it is, or -1: the op computes it
    WriteMode mode = WriteMode::add;
    int temporary = -1;  // memory the op assigns to, when the runtime has to add or convert
  };

  // program.cpp
  std::set<int> find_deferred() const;
  bool read_by_nodes(const Node& node) const;
  int now() const { return static_cast<int>(program_.steps.size()); }
  int new_memory(std::string name, const Spec& spec);
  int new_region(const char* name, const std::vector<int>& roots, std::vector<int>& located);
  Operand read(int memory, Index first, const Spec& spec);
  Operand write(int memory, Index first, const Spec& spec);
  Operand read_value(int value);
  void push(Step step) { program_.steps.push_back(std::move(step)); }
  void copy(const Operand& to, const Operand& from, int node, Step::Kind kind);
  void load_inputs(const Node& node);
  Operand define_output(int value, int entry);
  void add_workspace(Step& step, Index bytes, const Node& node);
  void forward(const Node& node, int entry);
  void permit_over_inputs(const Node& node, const Step& step);
  bool fills(const Operand& operand) const;
  void forward_pass();
  void find_results();
  void order_parameters();
  void close();

  // Backward:
  std::vector<std::vector<int>> backward_reads() const;
  std::vector<Contribution> find_contributions(const Node& node) const;
  std::vector<Contribution> contributions(std::size_t position, Part part) const;
  void plan_gathering();
  WriteMode claim(int value, int node);
  Operand gradient(int value, int node, bool writes);
  Spec computed_gradient(const Node& node, int input) const;
  void prepare_missing(const Node& node, const std::vector<Contribution>& all);
  void hand_on(const Node& node, const Contribution& c);
  void backward(std::size_t position, Part part);
  void run_op(const Node& node, std::vector<Contribution>& computed);
  void permit_gradients(const Node& node, const Step& step,
                        const std::vector<Contribution>& computed);
  bool overlaps_earlier(const Node& node, const std::vector<Contribution>& computed,
                        std::size_t c) const;
  void rerun(int scope, std::size_t begin, std::size_t end);
  void backward_scope(int scope, std::size_t begin, std::size_t end, Part part);
  void backward_pass(const Value& loss);

  /// Returns a node of this stage by its position.
  const Node& node_at(std::size_t position) const {
    return graph_.nodes()[static_cast<std::size_t>(view_.nodes[position])];
  }
  const ValueInfo& value(int id) const { return info(graph_, id); }
  bool is_parameter_gradient(int id) const {
    return info(graph_, info(graph_, id).gradient_root).parameter >= 0;
  }

  const Graph& graph_;
  const Values& results_;
  const Derivative& derivative_;
  const StageView& view_;
  const PlanOptions& options_;
  ScopeTree scopes_;
  Recompute recompute_;
  Program program_;
  Phase phase_ = Phase::forward;
  std::vector<std::vector<Contribution>> contributions_;  // by position in the view
  std::set<int> deferred_;                 // nodes whose outputs backward has still to make
  std::vector<char> kept_;                 // per storage root: there in backward anyway
  std::vector<int> current_;               // per storage root: its latest memory
  std::vector<int> sent_, sent_gradient_;  // per root: its place in the send regions
  std::vector<int> gradient_;              // per gradient root: its memory
  std::map<int, Gathering> gathering_;     // per gradient root on this stage
  std::map<int, std::size_t> gathered_;    // writes so far
  struct LastWrite {
    int order, step;
  };
  std::map<int, LastWrite> last_write_;  // per parameter
  int write_order_ = 0;
};

}  // namespace trireme::graph
