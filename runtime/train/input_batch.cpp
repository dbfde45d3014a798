#include "runtime/train/input_batch.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "trireme/core/bf16.h"

#include "runtime/core/round_up.h"

namespace trireme {
namespace {

constexpr Index alignment = 64;

const ValueInfo& input_info(const Graph& graph, std::size_t position) {
  return graph.values()[static_cast<std::size_t>(graph.inputs()[position])];
}

Index padded_bytes(const Tensor& tensor) { return round_up(tensor.bytes(), alignment); }

/// Sample `i` of an input.
void* row_of(const Tensor& input, Index i) {
  return static_cast<std::byte*>(input.data) + i * (input.bytes() / input.shape[0]);
}

Shape without_first(const Shape& shape) {
  Shape rest;
  for (int d = 1; d < shape.dims(); ++d) rest.push_back(shape[d]);
  return rest;
}

/// What DataSource::fill has returned. The bound keeps sums over any global batch exact.
Index checked_targets(Index targets, Index sample) {
  constexpr Index most = Index{1} << 32;
  require(0 <= targets && targets <= most, "DataSource::fill says that sample ", sample, " has ",
          targets, " targets; a sample has from 0 to ", most);
  return targets;
}

}  // namespace

InputBatch::InputBatch(const Graph& graph, const std::vector<const Plan*>& plans,
                       const Context& context)
    : check_finite_(context.options().check_finite),
      micro_batch_size_(context.options().micro_batch_size),
      micro_batches_(context.micro_batches()),
      first_row_(context.mesh().coordinate(Axis::data) *
                 (context.options().global_batch_size / context.data_size())) {
  std::set<int> used;
  for (const Plan* plan : plans) used.insert(plan->inputs().begin(), plan->inputs().end());
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const Spec& spec = input_info(graph, i).spec;
    used_.push_back(used.count(static_cast<int>(i)) > 0);
    names_.push_back(input_info(graph, i).name);
    input_.emplace_back(nullptr, spec.shape, spec.dtype);
    const bool rounded = spec.dtype == DType::bf16;
    row_.emplace_back(nullptr, without_first(spec.shape), rounded ? DType::f32 : spec.dtype);
    unrounded_.emplace_back(rounded && used_.back() ? static_cast<std::size_t>(row_.back().count())
                                                    : 0);
    if (used_.back()) bytes_ += padded_bytes(input_.back()) * micro_batches_;
  }
}

void InputBatch::allocate(Device& device) {
  memory_ = device.allocate_pinned(bytes_);
  read_ = device.make_event();
  std::byte* next = memory_.data();
  for (Index m = 0; m < micro_batches_; ++m) {
    std::vector<Tensor>& tensors = inputs_.emplace_back(input_.size());
    for (std::size_t i = 0; i < input_.size(); ++i) {
      if (!used_[i]) continue;
      tensors[i] = input_[i];
      tensors[i].data = next;
      next += padded_bytes(input_[i]);
    }
  }
}

Index InputBatch::first_sample(Index micro_batch) const {
  return first_row_ + micro_batch * micro_batch_size_;
}

/// A floating row is f32 here, whatever the model takes.
void InputBatch::check_finite(Index sample) const {
  for (std::size_t k = 0; k < row_.size(); ++k) {
    if (row_[k].data == nullptr || row_[k].dtype != DType::f32) continue;
    const float* row = row_[k].as<float>();
    for (Index i = 0; i < row_[k].count(); ++i)
      require(std::isfinite(row[i]), "input '", names_[k], "' of sample ", sample, ": element ", i,
              " is ", row[i], ", not a finite number (DataSource::fill)");
  }
}

Index InputBatch::load(DataSource& source, Index first) {
  Index targets = 0;
  for (Index m = 0; m < micro_batches_; ++m)
    for (Index i = 0; i < micro_batch_size_; ++i) {
      const std::vector<Tensor>& inputs = inputs_[static_cast<std::size_t>(m)];
      for (std::size_t k = 0; k < row_.size(); ++k)
        row_[k].data = inputs[k].data == nullptr ? nullptr
                       : !unrounded_[k].empty()  ? unrounded_[k].data()
                                                 : row_of(inputs[k], i);
      const Index sample = first + first_sample(m) + i;
      targets += checked_targets(source.fill(sample, row_), sample);
      if (check_finite_) check_finite(sample);
      for (std::size_t k = 0; k < row_.size(); ++k)
        if (!unrounded_[k].empty())
          std::transform(unrounded_[k].begin(), unrounded_[k].end(),
                         static_cast<Bf16*>(row_of(inputs[k], i)), to_bf16);
    }
  return targets;
}

void InputBatch::begin(Index step, double loss_scale) {
  step_ = step;
  loss_scale_ = loss_scale;
}

MicroBatch InputBatch::micro_batch(int /*chunk*/, Index number) {
  MicroBatch batch;
  batch.step = step_;
  batch.number = number;
  batch.first_sample = first_sample(number);
  batch.loss_scale = loss_scale_;
  batch.inputs = inputs_[static_cast<std::size_t>(number)];
  return batch;
}

void check_inputs(const Graph& graph, Index micro_batch_size, Problems& problems) {
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueInfo& input = input_info(graph, i);
    if (input.spec.shape.dims() < 1 || input.spec.shape[0] != micro_batch_size)
      problems.add("input '", input.name, "' has shape ", input.spec.shape,
                   ", but its dim 0 is the sample and has to be --micro-batch-size ",
                   micro_batch_size);
  }
}

void check_inputs_are_used(const Graph& graph, Problems& problems) {
  std::set<int> used;
  for (const Node& node : graph.nodes()) used.insert(node.inputs.begin(), node.inputs.end());
  for (const int input : graph.inputs())
    if (used.count(input) == 0)
      problems.add("input '", graph.values()[static_cast<std::size_t>(input)].name,
                   "' is used by no op: use it, or leave it out");
}

}  // namespace trireme
