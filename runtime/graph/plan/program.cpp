// Forward: load, forward ..., and what follows from the finished list.
#include "runtime/graph/plan/program.h"

#include <algorithm>

#include "runtime/core/at.h"
#include "runtime/graph/plan/builder.h"

namespace trireme::graph {

Program make_program(const Graph& graph, const Values& results, const Derivative& derivative,
                     const StageView& view, const PlanOptions& options) {
  return ProgramBuilder(graph, results, derivative, view, options).build();
}

ProgramBuilder::ProgramBuilder(const Graph& graph, const Values& results,
                               const Derivative& derivative, const StageView& view,
                               const PlanOptions& options)
    : graph_(graph),
      results_(results),
      derivative_(derivative),
      view_(view),
      options_(options),
      scopes_(graph.recompute_parents()),
      kept_(graph.values().size(), 1),
      current_(graph.values().size(), -1),
      sent_(graph.values().size(), -1),
      sent_gradient_(graph.values().size(), -1),
      gradient_(graph.values().size(), -1) {
  for (const int n : view.nodes) {
    for (const int v : graph.nodes()[at(n)].outputs)
      if (value(v).root == v) kept_[at(v)] = 0;
    for (const int v : graph.nodes()[at(n)].sides) kept_[at(v)] = 0;
  }
  for (const int v : view.sent) kept_[at(v)] = 1;
  for (const Value& result : results) kept_[at(value(result.id()).root)] = 1;
}

Program ProgramBuilder::build() {
  program_.receive_values = new_region("received values", view_.received, current_);
  program_.send_values = new_region("sent values", view_.sent, sent_);
  contributions_.reserve(view_.nodes.size());
  for (std::size_t n = 0; n < view_.nodes.size(); ++n)
    contributions_.push_back(find_contributions(node_at(n)));
  if (options_.mode == PlanOptions::Mode::training) deferred_ = find_deferred();
  recompute_ = plan_recompute(graph_, view_, backward_reads(), kept_);
  forward_pass();
  if (options_.mode == PlanOptions::Mode::training) backward_pass(results_.front());
  find_results();
  close();
  order_parameters();
  return std::move(program_);
}

bool ProgramBuilder::read_by_nodes(const Node& node) const {
  const auto is_output = [&](int id) {
    const int root = value(id).root;
    return value(root).node == node.id;
  };
  return std::any_of(graph_.nodes().begin(), graph_.nodes().end(), [&](const Node& other) {
    return derivative_.needed[at(other.id)] != 0 && !is_view(graph_, other) &&
           std::any_of(other.inputs.begin(), other.inputs.end(), is_output);
  });
}

// Nodes whose first backward computes their outputs: forward may be left out, because nothing reads
// them before.
std::set<int> ProgramBuilder::find_deferred() const {
  const bool split = options_.backward == PlanOptions::Backward::split;
  std::set<int> deferred;
  for (std::size_t n = 0; n < view_.nodes.size(); ++n) {
    const Node& node = node_at(n);
    if (!node.op->forward_in_backward() || !runs_forward(graph_, node) || read_by_nodes(node))
      continue;
    const auto first = contributions(n, split ? Part::input : Part::both);
    if (std::any_of(first.begin(), first.end(), [](const auto& c) { return c.passes_from < 0; }))
      deferred.insert(node.id);
  }
  return deferred;
}

int ProgramBuilder::new_memory(std::string name, const Spec& spec) {
  Memory& memory = program_.memory.emplace_back();
  memory.name = std::move(name);
  memory.dtype = spec.dtype;
  memory.bytes = span(spec) * size_bytes(spec.dtype);
  return static_cast<int>(program_.memory.size()) - 1;
}

// The roots packed one after the other, in order of their ids: both sides of a cut agree by
// construction.
int ProgramBuilder::new_region(const char* name, const std::vector<int>& roots,
                               std::vector<int>& located) {
  if (roots.empty()) return -1;
  const int region = new_memory(name, Spec(Shape{0}, DType::u8));
  program_.memory[at(region)].life = Memory::Life::program;
  Index offset = 0;
  for (const int root : roots) {
    const int memory = new_memory(value(root).name, value(root).spec);
    program_.memory[at(memory)].region = region;
    program_.memory[at(memory)].region_offset = offset;
    located[at(root)] = memory;
    offset += align_up(program_.memory[at(memory)].bytes);
  }
  program_.memory[at(region)].bytes = offset;
  return region;
}

Operand ProgramBuilder::read(int memory, Index first, const Spec& spec) {
  Memory& m = program_.memory[at(memory)];
  m.end = now();
  return {Operand::Source::memory, memory, first, spec};
}

Operand ProgramBuilder::write(int memory, Index first, const Spec& spec) {
  Memory& m = program_.memory[at(memory)];
  if (m.begin < 0) m.begin = now();
  m.end = now();
  if (m.writes.empty() || m.writes.back() != now()) m.writes.push_back(now());
  return {Operand::Source::memory, memory, first, spec};
}

Operand ProgramBuilder::read_value(int id) {
  const ValueInfo& v = value(id);
  const ValueInfo& root = value(v.root);
  if (root.parameter >= 0) return {Operand::Source::parameter, root.parameter, v.first, v.spec};
  return read(current_[at(v.root)], v.first, v.spec);
}

void ProgramBuilder::copy(const Operand& to, const Operand& from, int node, Step::Kind kind) {
  Step step;
  step.kind = kind;
  step.phase = phase_;
  step.node = node;
  step.to = to;
  step.from = from;
  push(std::move(step));
}

// Right before their first use, in forward; what backward reads of them is kept.
void ProgramBuilder::load_inputs(const Node& node) {
  for (const int input : node.inputs) {
    const int root = value(input).root;
    if (value(root).kind != ValueInfo::Kind::input || current_[at(root)] >= 0) continue;
    Step step;
    step.kind = Step::Kind::load;
    const auto& inputs = graph_.inputs();
    step.input = static_cast<int>(std::find(inputs.begin(), inputs.end(), root) - inputs.begin());
    current_[at(root)] = new_memory(value(root).name, value(root).spec);
    step.to = write(current_[at(root)], 0, value(root).spec);
    program_.inputs.push_back(step.input);
    push(std::move(step));
  }
}

// New memory for an output, in forward (`entry` is top) or when the scope `entry` is entered in
// backward.
Operand ProgramBuilder::define_output(int id, int entry) {
  const ValueInfo& v = value(id);
  if (v.root != id) return read_value(id);
  if (entry == top && sent_[at(id)] >= 0) {
    current_[at(id)] = sent_[at(id)];
    return write(sent_[at(id)], 0, v.spec);
  }
  const int memory = new_memory(entry == top ? v.name : v.name + " (again)", v.spec);
  const int depth = recompute_.depth[at(id)];
  const bool there =
      entry != top && (kept_[at(id)] || (depth != entry && scopes_.contains(depth, entry)));
  if (!there) current_[at(id)] = memory;
  return write(memory, 0, v.spec);
}

void ProgramBuilder::add_workspace(Step& step, Index bytes, const Node& node) {
  if (bytes <= 0) return;
  const Spec spec(Shape{bytes}, DType::u8);
  step.workspace = write(new_memory(node.name + " workspace", spec), 0, spec);
}

void ProgramBuilder::forward(const Node& node, int entry) {
  if (!runs_forward(graph_, node)) return;
  load_inputs(node);
  if (deferred_.count(node.id) != 0) return;
  Step step;
  step.kind = Step::Kind::forward;
  step.phase = phase_;
  step.node = node.id;
  step.inputs.reserve(node.inputs.size());
  for (const int input : node.inputs) step.inputs.push_back(read_value(input));
  step.outputs.reserve(node.outputs.size() + node.sides.size());
  for (const int v : node.outputs) step.outputs.push_back(define_output(v, entry));
  for (const int v : node.sides) step.outputs.push_back(define_output(v, entry));
  add_workspace(step, node.op->forward_workspace_bytes(specs_of(graph_, node)), node);
  permit_over_inputs(node, step);
  push(std::move(step));
}

bool ProgramBuilder::fills(const Operand& operand) const {
  return operand.source == Operand::Source::memory && operand.first == 0 && operand.spec.packed() &&
         operand.spec.bytes() == program_.memory[at(operand.id)].bytes;
}

void ProgramBuilder::permit_over_inputs(const Node& node, const Step& step) {
  const Sharing sharing = node.op->sharing();
  for (const Sharing::Permission& p : sharing.permissions()) {
    if (p.kind != Sharing::Kind::output_over_input) continue;
    const Operand& output = step.outputs.at(at(p.first));
    const Operand& input = step.inputs.at(at(p.second));
    const auto readers = std::count_if(
        step.inputs.begin(), step.inputs.end(),
        [&](const Operand& o) { return o.source == input.source && o.id == input.id; });
    const bool fresh = at(p.first) >= node.outputs.size() ||
                       value(node.outputs[at(p.first)]).root == node.outputs[at(p.first)];
    if (fresh && readers == 1 && fills(input))
      program_.shares.push_back({Share::Kind::over, output.id, input.id, now()});
  }
}

void ProgramBuilder::forward_pass() {
  for (const int root : view_.sent)  // relays
    if (current_[at(root)] >= 0) {
      const Operand from = read(current_[at(root)], 0, value(root).spec);
      copy(write(sent_[at(root)], 0, value(root).spec), from, -1, Step::Kind::copy);
    }
  for (const int n : view_.nodes) forward(graph_.nodes()[at(n)], top);
}

// They stay to the end of the program.
void ProgramBuilder::find_results() {
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const Value& result = results_[i];
    const int root = value(result.id()).root;
    const bool here = view_.computes[i] != 0;
    program_.results.push_back(here ? read_value(result.id()) : Operand{});
    if (here && program_.memory[at(current_[at(root)])].region < 0)
      program_.memory[at(current_[at(root)])].life = Memory::Life::from_definition;
  }
}

void ProgramBuilder::close() {
  const int last = std::max(0, now() - 1);
  for (Memory& memory : program_.memory) {
    if (memory.life != Memory::Life::steps || memory.region >= 0) memory.end = last;
    if (memory.life == Memory::Life::program || memory.region >= 0) memory.begin = 0;
    memory.end = std::min(memory.end, last);
  }
}

// Rule 13: the flat order is the order in which gradients become complete.
void ProgramBuilder::order_parameters() {
  std::vector<char> used(graph_.parameters().size(), 0);
  for (const int n : view_.nodes) {
    const Node& node = graph_.nodes()[at(n)];
    if (is_view(graph_, node)) continue;
    for (const int input : node.inputs)
      if (root_of(graph_, input).parameter >= 0) used[at(root_of(graph_, input).parameter)] = 1;
  }
  for (const Parameter& p : graph_.parameters()) {
    if (!used[at(p.id)] || last_write_.count(p.id) != 0) continue;
    program_.parameters.push_back(p.id);
    if (!p.frozen) program_.ready_first.push_back(p.id);
  }
  std::vector<std::pair<int, int>> written;
  for (const auto& [id, last] : last_write_) written.emplace_back(last.order, id);
  std::sort(written.begin(), written.end());
  for (const auto& [order, id] : written) {
    program_.parameters.push_back(id);
    program_.steps[at(last_write_.at(id).step)].ready.push_back(id);
  }
}

}  // namespace trireme::graph
