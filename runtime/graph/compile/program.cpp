// Forward: load, forward ..., and what follows from the finished list; then backward.
#include "runtime/graph/compile/program.h"

#include <algorithm>

#include "runtime/core/at.h"
#include "runtime/graph/compile/builder.h"

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
    if (!p.frozen()) program_.ready_first.push_back(p.id);
  }
  std::vector<std::pair<int, int>> written;
  for (const auto& [id, last] : last_write_) written.emplace_back(last.order, id);
  std::sort(written.begin(), written.end());
  for (const auto& [order, id] : written) {
    program_.parameters.push_back(id);
    program_.steps[at(last_write_.at(id).step)].ready.push_back(id);
  }
}

// Backward: receive, seed, then the nodes in reverse with re-runs at the entry of recompute scopes.
// Every gradient is gathered in its root by the rules of region.h; parameter gradients always add,
// in f32.

namespace {

int passes_from(const Sharing& sharing, int input) {
  for (const Sharing::Permission& p : sharing.permissions())
    if (p.kind == Sharing::Kind::gradient_passes && p.first == input) return p.second;
  return -1;
}

/// What backward of a node computes, as far as its op decides by it what it reads.
template <class Contributions>
BackwardWork backward_work(const Node& node, const Contributions& computed) {
  BackwardWork work;
  work.gradients.resize(node.inputs.size(), BackwardWork::Gradient::none);
  for (const auto& c : computed)
    if (c.passes_from < 0) work.gradients[at(c.input)] = BackwardWork::Gradient::assigned;
  return work;
}

}  // namespace

// Which storage roots each op's backward reads, when it computes anything.
std::vector<std::vector<int>> ProgramBuilder::backward_reads() const {
  std::vector<std::vector<int>> reads(graph_.nodes().size());
  for (std::size_t p = 0; p < view_.nodes.size(); ++p) {
    const Node& node = node_at(p);
    const int n = node.id;
    const auto& all = contributions_[p];
    if (std::none_of(all.begin(), all.end(), [](const auto& c) { return c.passes_from < 0; }))
      continue;
    const Saved saved = node.op->saved(backward_work(node, all));
    const auto inputs = static_cast<int>(node.inputs.size()),
               outputs = static_cast<int>(node.outputs.size());
    for (int i = 0; i < inputs; ++i)
      if (saved.has_input(i)) reads[at(n)].push_back(value(node.inputs[at(i)]).root);
    for (int o = 0; o < outputs; ++o)
      if (saved.has_output(o)) reads[at(n)].push_back(value(node.outputs[at(o)]).root);
    for (int s = 0; s < static_cast<int>(node.sides.size()); ++s)
      if (saved.has_output(outputs + s)) reads[at(n)].push_back(node.sides[at(s)]);
  }
  return reads;
}

// In the order in which they are emitted: what passes first, then what the op computes.
std::vector<ProgramBuilder::Contribution> ProgramBuilder::find_contributions(
    const Node& node) const {
  std::vector<Contribution> passing, computed;
  if (!derivative_.active[at(node.id)]) return {};
  const Sharing sharing = node.op->sharing();
  for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
    if (!hands_on(graph_, derivative_, node, i)) continue;
    const int from = passes_from(sharing, i);
    (from >= 0 ? passing : computed).push_back({.input = i, .passes_from = from});
  }
  passing.insert(passing.end(), computed.begin(), computed.end());
  return passing;
}

std::vector<ProgramBuilder::Contribution> ProgramBuilder::contributions(std::size_t position,
                                                                        Part part) const {
  std::vector<Contribution> all = contributions_[position];
  if (part == Part::both) return all;
  const Node& node = node_at(position);
  std::erase_if(all, [&](const Contribution& c) {
    return is_parameter_gradient(node.inputs[at(c.input)]) != (part == Part::parameter);
  });
  return all;
}

// All writes to each gradient root of this stage, in order, before the first is emitted.
void ProgramBuilder::plan_gathering() {
  std::map<int, std::vector<Region>> writes;
  const auto root_region = [&](int root) { return region_of(value(root).spec, 0); };
  const auto add = [&](int id) {
    const ValueInfo& v = value(id);
    writes[v.gradient_root].push_back(region_of(v.spec, v.first - value(v.gradient_root).first));
  };
  for (const int root : view_.gradients_received) writes[root].push_back(root_region(root));
  if (view_.computes.front()) add(results_.front().id());
  for (std::size_t n = view_.nodes.size(); n-- > 0;) {
    const Node& node = node_at(n);
    for (const Contribution& c : contributions_[n])
      if (!is_parameter_gradient(node.inputs[at(c.input)])) add(node.inputs[at(c.input)]);
  }
  for (const auto& [root, regions] : writes) gathering_[root] = gather(root_region(root), regions);
}

// The next write to the gradient root of `id`: makes its memory at the first one, and zeroes it
// where needed.
WriteMode ProgramBuilder::claim(int id, int node) {
  if (is_parameter_gradient(id)) return WriteMode::add;
  const int root = value(id).gradient_root;
  const Gathering& plan = gathering_.at(root);
  std::size_t& done = gathered_[root];
  if (done == 0) {
    const Spec& spec = value(root).spec;
    if (gradient_[at(root)] < 0)
      gradient_[at(root)] = sent_gradient_[at(root)] >= 0
                                ? sent_gradient_[at(root)]
                                : new_memory("grad " + value(root).name, spec);
    if (plan.zero_first) copy(write(gradient_[at(root)], 0, spec), {}, node, Step::Kind::zero);
  }
  return plan.modes.at(done++);
}

Operand ProgramBuilder::gradient(int id, int node, bool writes) {
  const ValueInfo& v = value(id);
  const ValueInfo& root = value(v.gradient_root);
  const Index first = v.first - root.first;
  if (root.parameter >= 0) {
    if (writes) last_write_[root.parameter] = {write_order_++, now()};
    Spec spec = v.spec;
    spec.dtype = DType::f32;
    return {Operand::Source::gradient, root.parameter, first, spec};
  }
  const int memory = gradient_[at(v.gradient_root)];
  require(memory >= 0, "internal: node ", node, " reads the gradient of '", v.name,
          "' before it is made");
  return writes ? write(memory, first, v.spec) : read(memory, first, v.spec);
}

// What backward of the op makes for an input: as the input is, weights' in f32.
Spec ProgramBuilder::computed_gradient(const Node& node, int input) const {
  Spec spec = value(node.inputs[at(input)]).spec;
  if (spec.dtype == DType::bf16 && node.op->is_weight(input)) spec.dtype = DType::f32;
  return spec;
}

// Where an op gets the gradients of some of its outputs but not of all, the missing ones are zeros,
// if its backward reads them or they are handed on.
void ProgramBuilder::prepare_missing(const Node& node, const std::vector<Contribution>& all) {
  for (int k = 0; k < static_cast<int>(node.outputs.size()); ++k) {
    const bool read = std::any_of(all.begin(), all.end(), [&](const Contribution& c) {
      return c.passes_from < 0 || c.passes_from == k;
    });
    if (!read) continue;
    const int o = node.outputs[at(k)];
    const ValueInfo& v = value(o);
    if (v.gradient_root != o || gradient_[at(o)] >= 0 || !is_floating(v.spec.dtype) ||
        v.output == Output::Kind::detached)
      continue;
    gradient_[at(o)] = new_memory("zero grad " + v.name, v.spec);
    copy(write(gradient_[at(o)], 0, v.spec), {}, node.id, Step::Kind::zero);
  }
}

void ProgramBuilder::hand_on(const Node& node, const Contribution& c) {
  const int target = node.inputs[at(c.input)], source = node.outputs.at(at(c.passes_from));
  const WriteMode mode = claim(target, node.id);
  const Operand from = gradient(source, node.id, false);
  const Operand to = gradient(target, node.id, true);
  const DType dtype = value(target).spec.dtype;  // of `to` too, but where it is a parameter's
  require(from.spec.shape == to.spec.shape && from.spec.dtype == dtype, "op '", node.name,
          "' passes the gradient of output ", c.passes_from, " (", from.spec, ") to input ",
          c.input, " (", to.spec, "), which looks different");
  if (mode == WriteMode::assign && fills(to) && fills(from))
    program_.shares.push_back({Share::Kind::passes, to.id, from.id, now()});
  copy(to, from, node.id, mode == WriteMode::assign ? Step::Kind::copy : Step::Kind::add);
}

// One op receives overlapping parts of one gradient root: only the first may be written directly
// (rule 5).
bool ProgramBuilder::overlaps_earlier(const Node& node, const std::vector<Contribution>& computed,
                                      std::size_t c) const {
  const ValueInfo& mine = value(node.inputs[at(computed[c].input)]);
  for (std::size_t k = 0; k < c; ++k) {
    const ValueInfo& other = value(node.inputs[at(computed[k].input)]);
    if (other.gradient_root == mine.gradient_root &&
        !disjoint(region_of(other.spec, other.first), region_of(mine.spec, mine.first)))
      return true;
  }
  return false;
}

void ProgramBuilder::backward(std::size_t position, Part part) {
  const Node& node = node_at(position);
  std::vector<Contribution> computed;
  const std::vector<Contribution> all = contributions(position, part);
  if (all.empty()) return;
  prepare_missing(node, all);
  for (const Contribution& c : all) {
    if (c.passes_from >= 0)
      hand_on(node, c);
    else
      computed.push_back(c);
  }
  if (computed.empty()) return;
  for (std::size_t c = 0; c < computed.size(); ++c) {
    const int id = node.inputs[at(computed[c].input)];
    const Spec spec = computed_gradient(node, computed[c].input);
    const DType kept = is_parameter_gradient(id) ? DType::f32 : value(id).spec.dtype;
    computed[c].mode = claim(id, node.id);
    const bool direct = spec.dtype == kept && (computed[c].mode == WriteMode::assign ||
                                               node.op->accumulates(computed[c].input));
    if (!direct || overlaps_earlier(node, computed, c))
      computed[c].temporary = new_memory("temporary grad " + value(id).name, spec);
  }
  run_op(node, computed);
  for (const Contribution& c : computed) {
    if (c.temporary < 0) continue;
    const int target = node.inputs[at(c.input)];
    const Operand from = read(c.temporary, 0, computed_gradient(node, c.input));
    const Operand to = gradient(target, node.id, true);
    copy(to, from, node.id, c.mode == WriteMode::assign ? Step::Kind::copy : Step::Kind::add);
  }
}

void ProgramBuilder::run_op(const Node& node, std::vector<Contribution>& computed) {
  Step step;
  step.kind = Step::Kind::backward;
  step.phase = phase_;
  step.node = node.id;
  const Saved saved = node.op->saved(backward_work(node, computed));
  step.inputs.reserve(node.inputs.size());
  for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i)
    step.inputs.push_back(saved.has_input(i) ? read_value(node.inputs[at(i)]) : Operand{});
  std::vector<int> outputs = node.outputs;
  outputs.insert(outputs.end(), node.sides.begin(), node.sides.end());
  step.makes_outputs = deferred_.erase(node.id) != 0;
  step.outputs.reserve(outputs.size());
  step.grad_outputs.reserve(node.outputs.size());
  for (int o = 0; o < static_cast<int>(outputs.size()); ++o)
    step.outputs.push_back(step.makes_outputs    ? define_output(outputs[at(o)], top)
                           : saved.has_output(o) ? read_value(outputs[at(o)])
                                                 : Operand{});
  for (const int o : node.outputs)
    step.grad_outputs.push_back(value(o).gradient_root == o && gradient_[at(o)] >= 0
                                    ? gradient(o, node.id, false)
                                    : Operand{});
  step.grad_inputs.resize(node.inputs.size());
  step.accumulate.resize(node.inputs.size(), 0);
  for (const Contribution& c : computed) {
    const int target = node.inputs[at(c.input)];
    step.grad_inputs[at(c.input)] = c.temporary >= 0
                                        ? write(c.temporary, 0, computed_gradient(node, c.input))
                                        : gradient(target, node.id, true);
    step.accumulate[at(c.input)] = static_cast<char>(c.temporary < 0 && c.mode == WriteMode::add);
  }
  add_workspace(step, node.op->backward_workspace_bytes(specs_of(graph_, node)), node);
  permit_gradients(node, step, computed);
  push(std::move(step));
}

// A gradient that the op assigns may be written over an operand that dies here, if both fill their
// memory and no other operand is the same memory.
void ProgramBuilder::permit_gradients(const Node& node, const Step& step,
                                      const std::vector<Contribution>& computed) {
  const auto reads = [&](const Operand& source) {
    Index count = 0;
    for (const auto* operands : {&step.inputs, &step.outputs, &step.grad_outputs})
      for (const Operand& o : *operands)
        count += o.source == Operand::Source::memory && o.id == source.id;
    return count;
  };
  const Sharing sharing = node.op->sharing();
  for (const Sharing::Permission& p : sharing.permissions()) {
    if (p.kind != Sharing::Kind::gradient_over_input &&
        p.kind != Sharing::Kind::gradient_over_output)
      continue;
    const Operand& target = step.grad_inputs.at(at(p.first));
    const bool over_input = p.kind == Sharing::Kind::gradient_over_input;
    const Operand& source =
        over_input ? step.inputs.at(at(p.second)) : step.grad_outputs.at(at(p.second));
    if (target.source != Operand::Source::memory) continue;
    const auto c = std::find_if(computed.begin(), computed.end(),
                                [&](const auto& x) { return x.input == p.first; });
    const bool assigns = c->temporary >= 0 || c->mode == WriteMode::assign;
    if (assigns && fills(target) && fills(source) && reads(source) == 1)
      program_.shares.push_back({Share::Kind::over, target.id, source.id, now()});
  }
}

void ProgramBuilder::rerun(int scope, std::size_t begin, std::size_t end) {
  for (std::size_t n = begin; n < end; ++n)
    if (recompute_.runs_again(view_.nodes[n], scope))
      forward(graph_.nodes()[at(view_.nodes[n])], scope);
}

// Nodes [begin, end) of this stage all lie inside `scope`; those of one child scope are neighbours.
void ProgramBuilder::backward_scope(int scope, std::size_t begin, std::size_t end, Part part) {
  const auto child_of = [&](std::size_t n) {
    const int inner = graph_.nodes()[at(view_.nodes[n])].recompute;
    return inner == scope ? scope : scopes_.child_towards(scope, inner);
  };
  for (std::size_t last = end; last > begin;) {
    const int child = child_of(last - 1);
    if (child == scope) {
      backward(--last, part);
      continue;
    }
    std::size_t first = last - 1;
    while (first > begin && child_of(first - 1) == child) --first;
    rerun(child, first, last);
    backward_scope(child, first, last, part);
    last = first;
  }
}

void ProgramBuilder::backward_pass(const Value& loss) {
  phase_ = Phase::backward;
  program_.receive_gradients =
      new_region("received gradients", view_.gradients_received, gradient_);
  program_.send_gradients = new_region("sent gradients", view_.gradients_sent, sent_gradient_);
  plan_gathering();
  for (const int root : view_.gradients_received) {
    claim(root, -1);
    if (sent_gradient_[at(root)] < 0) continue;
    const Operand from = read(gradient_[at(root)], 0, value(root).spec);  // relayed
    gradient_[at(root)] = sent_gradient_[at(root)];
    copy(write(gradient_[at(root)], 0, value(root).spec), from, -1, Step::Kind::copy);
  }
  if (view_.computes.front()) {
    const WriteMode mode = claim(loss.id(), -1);
    require(mode == WriteMode::assign || gathering_.at(value(loss.id()).gradient_root).zero_first,
            "internal: the seed of '", value(loss.id()).name, "' is not its first gradient");
    copy(gradient(loss.id(), -1, true), {}, -1, Step::Kind::seed);
  }
  const bool split = options_.backward == PlanOptions::Backward::split;
  backward_scope(top, 0, view_.nodes.size(), split ? Part::input : Part::both);
  if (!split) return;
  phase_ = Phase::parameter_backward;  // everything it reads lives on, so no scope is entered again
  for (std::size_t n = view_.nodes.size(); n-- > 0;) backward(n, Part::parameter);
}

}  // namespace trireme::graph
