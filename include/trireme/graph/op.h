// Op: a result, its gradient, and what the gradient needs, side by side. Ops are const and
// stateless: all memory is planned by the runtime and arrives in Exec. Four methods are mandatory;
// the rest are permissions and estimates. docs/concepts/graph.md shows how to write one; gradient_check
// (graph/gradient_check.h) checks one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trireme/comm/communicator.h"
#include "trireme/core/random.h"
#include "trireme/core/tensor.h"
#include "trireme/graph/place.h"
#include "trireme/graph/preparation.h"
#include "trireme/graph/spec.h"
#include "trireme/graph/work.h"

namespace trireme {

/// One output as `infer` declares it.
class Output {
 public:
  enum class Kind { fresh, side, view, identity, detached };
  /// New memory.
  Output(Spec spec) : spec_(spec) {}  // NOLINT(google-explicit-constructor)
  /// Memory only for backward (statistics): no Value, no gradient. Side outputs come last.
  static Output side(Spec spec) { return {spec, Kind::side, 0, 0}; }
  /// Input `in` seen through `spec`, which starts `first` elements into it. Its gradient is the
  /// same view of the input's gradient, so forward and backward are never called for it.
  static Output view(int in, Spec spec, Index first = 0) { return {spec, Kind::view, in, first}; }
  /// The value of input `in`, no copy, but its gradient is the op's own (entering the tensor axis).
  static Output identity(int in, Spec spec) { return {spec, Kind::identity, in, 0}; }

  /// New memory that no gradient comes back through: its readers account for what depends on it in another way, and say that they
  /// are not differentiable in it (Op::differentiable). Others are refused while tracing.
  static Output detached(Spec spec) { return {spec, Kind::detached, 0, 0}; }

  const Spec& spec() const { return spec_; }
  Kind kind() const { return kind_; }
  int source() const { return source_; }
  Index first() const { return first_; }

 private:
  Output(Spec spec, Kind kind, int source, Index first)
      : spec_(spec), kind_(kind), source_(source), first_(first) {}
  Spec spec_;
  Kind kind_ = Kind::fresh;
  int source_ = 0;
  Index first_ = 0;
};
using Outputs = std::vector<Output>;

/// Which inputs and outputs backward reads. Everything else is dead after forward.
class Saved {
 public:
  static Saved nothing() { return {}; }
  static Saved input(int i) { return Saved(1u << i, 0); }
  static Saved output(int i) { return Saved(0, 1u << i); }
  friend Saved operator|(Saved a, Saved b) {
    return Saved(a.inputs_ | b.inputs_, a.outputs_ | b.outputs_);
  }
  bool has_input(int i) const { return (inputs_ >> i & 1u) != 0; }
  bool has_output(int i) const { return (outputs_ >> i & 1u) != 0; }

 private:
  Saved() = default;
  Saved(std::uint32_t inputs, std::uint32_t outputs) : inputs_(inputs), outputs_(outputs) {}
  std::uint32_t inputs_ = 0, outputs_ = 0;
};

/// Memory that an op allows two of its tensors to share. A permission: the planner uses it where it
/// is legal.
class Sharing {
 public:
  enum class Kind { output_over_input, gradient_passes, gradient_over_input, gradient_over_output };
  struct Permission {
    Kind kind;
    int first, second;
  };
  /// Output o may be written over input i.
  Sharing& output_over_input(int o, int i) { return add(Kind::output_over_input, o, i); }
  /// The gradient of input i is exactly the gradient of output o: never computed (wants(i) is
  /// false), it costs nothing.
  Sharing& gradient_passes(int i, int o) { return add(Kind::gradient_passes, i, o); }
  /// The gradient of input i may be written over (saved) input j.
  Sharing& gradient_over_input(int i, int j) { return add(Kind::gradient_over_input, i, j); }
  /// The gradient of input i may be written over the gradient of output o.
  Sharing& gradient_over_output(int i, int o) { return add(Kind::gradient_over_output, i, o); }
  const std::vector<Permission>& permissions() const { return permissions_; }

 private:
  Sharing& add(Kind kind, int first, int second) {
    permissions_.push_back({kind, first, second});
    return *this;
  }
  std::vector<Permission> permissions_;
};

/// What an op is given when it runs. Tensors are borrowed and valid during the call.
class Exec {
 public:
  virtual ~Exec() = default;
  // Throw an Error that names the op when the tensor is not available: not saved, or not wanted.
  virtual const Tensor& input(int i) const = 0;
  virtual const Tensor& output(int i) const = 0;
  virtual const Tensor& grad_output(int i) const = 0;
  virtual const Tensor& grad_input(int i) const = 0;
  /// Backward: is the gradient of input i asked for in this call? (Input and parameter gradients
  /// may be asked apart.)
  virtual bool wants(int i) const = 0;
  /// Backward: add to grad_input(i) instead of assigning. Only ever true for inputs that declare
  /// accumulates(i).
  virtual bool accumulate(int i) const = 0;
  /// Backward: the outputs are still to be made, and are there to be written, the side ones too. Only
  /// ever true for ops that declare forward_in_backward().
  virtual bool makes_outputs() const = 0;
  /// workspace_bytes of scratch, aligned to 256; undefined content.
  virtual void* workspace() const = 0;
  virtual Communicator& tensor_axis() const = 0;
  virtual Stream& stream() const = 0;
  /// The numbers of (seed, this op's logical name, step): equal for every layout and in a re-run.
  virtual Random random() const = 0;
  /// Index, in the global batch, of the first sample (row of dim 0 of inputs) of this micro-batch.
  virtual Index first_sample() const = 0;
};

class Op {
 public:
  virtual ~Op() = default;
  /// For names, reports and errors: "rms_norm".
  virtual std::string name() const = 0;
  /// Visible outputs, then side outputs. Throws: Error that says what is wrong with the shapes.
  virtual Outputs infer(const Specs& inputs) const = 0;
  virtual void forward(Exec& e) const = 0;
  virtual void backward(Exec& e) const = 0;

  /// What the first forward, or backward, with such tensors would have to do besides its work: descriptors, choices by timing.
  /// Called before the first step with the tensors, the workspace and the stream of that call; may read what is there, whatever
  /// it is, waits for the stream as it likes, and writes to none of them. Never communicates: other ranks may have other ops.
  virtual void prepare_forward(Exec&, Preparation&) const {}
  virtual void prepare_backward(Exec&, Preparation&) const {}

  virtual Saved saved() const { return Saved::nothing(); }
  virtual Sharing sharing() const { return {}; }
  /// backward can add to the gradient of input i. If not, it assigns to a temporary and the runtime
  /// adds.
  virtual bool accumulates(int /*input*/) const { return false; }
  /// backward can make the outputs as well (Exec::makes_outputs). In training forward is then left
  /// out where nothing else reads them: for a loss whose gradients need what its value needs.
  virtual bool forward_in_backward() const { return false; }
  /// Input i may be strided. If not, a strided value is a trace error that names contiguous().
  virtual bool strided(int /*input*/) const { return false; }
  /// Floating inputs may be of this type. Who does not say that an op works in bf16 has it refused
  /// under --bf16, while tracing. Statistics and losses beside bf16 values are f32 and f64.
  virtual bool works_in(DType dtype) const { return dtype != DType::bf16; }
  /// Input i is a weight: backward makes its gradient in f32 whatever the type of the value, for sums
  /// over many micro-batches. The gradients of other inputs have the type of the input.
  virtual bool is_weight(int /*input*/) const { return false; }
  /// Tokens, targets, masks: no gradient flows to input i.
  virtual bool differentiable(int /*input*/) const { return true; }
  virtual Index forward_workspace_bytes(const Specs& /*inputs*/) const { return 0; }
  virtual Index backward_workspace_bytes(const Specs& inputs) const {
    return forward_workspace_bytes(inputs);
  }
  /// Floating-point operations of forward. In costs of stages backward counts twice that.
  virtual double flops(const Specs& inputs) const;
  /// The least bytes that forward reads and writes. Default: inputs and new outputs, once each.
  virtual double bytes(const Specs& inputs) const;
  /// The same of a call of backward. Defaults: as many operations as forward for the gradients of
  /// weights, as many for the others (twice that without weights); what is saved and the gradients
  /// of outputs, read once, the gradients of inputs, and the outputs that it makes.
  virtual double backward_flops(const Specs& inputs, const BackwardWork& work) const;
  virtual double backward_bytes(const Specs& inputs, const BackwardWork& work) const;
  /// Place of the outputs, from the places of the inputs (parameters: whole or split). The default
  /// suits ops that treat every element or row alike: split if any input is, else entered, else
  /// whole; terms are rejected, and so is a whole activation beside entered or split ones.
  virtual Place place(const Places& inputs, const std::vector<bool>& is_parameter) const;
  /// Is the gradient that backward gives to the whole parameter at `input` complete on every tensor
  /// rank, when the outputs are placed so? If not it is one term, and the runtime sums it over the
  /// tensor axis.
  virtual bool completes_gradient(int /*input*/, Place output) const {
    return output == Place::whole;
  }
};
using OpPtr = std::shared_ptr<const Op>;

}  // namespace trireme
