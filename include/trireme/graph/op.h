// Op: a function, its gradient, and what the gradient needs, in one class. Ops are const and
// stateless: the runtime plans all memory and passes it in Exec. Four methods are mandatory; all
// other properties of an op have defaults (graph/op_traits.h). docs/concepts/graph.md shows how to
// write one; gradient_check (graph/gradient_check.h) checks one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/communicator.h"
#include "trireme/core/mesh_shape.h"
#include "trireme/core/step_scalars.h"
#include "trireme/core/tensor.h"
#include "trireme/graph/op_traits.h"
#include "trireme/graph/spec.h"

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
  /// The value of input `in` without a copy. The op computes its gradient (entering the tensor
  /// axis).
  static Output identity(int in, Spec spec) { return {spec, Kind::identity, in, 0}; }

  /// New memory that receives no gradient. Its consumers send the gradient to an earlier value, and
  /// declare that they are not differentiable in this one (Op::differentiable). Other consumers are
  /// rejected while tracing.
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

/// The arguments of a running op. Tensors are borrowed and valid during the call.
class Exec {
 public:
  virtual ~Exec() = default;
  // Throw an Error that names the op when the tensor is not available: not saved, or not wanted.
  virtual const Tensor& input(int i) const = 0;
  virtual const Tensor& output(int i) const = 0;
  virtual const Tensor& grad_output(int i) const = 0;
  virtual const Tensor& grad_input(int i) const = 0;
  /// Backward: whether this call computes the gradient of input i. (Input and parameter gradients
  /// may be requested in separate calls.)
  virtual bool wants(int i) const = 0;
  /// Backward: add to grad_input(i) instead of assigning. True only for inputs that declare
  /// accumulates(i).
  virtual bool accumulate(int i) const = 0;
  /// Backward: this call must also write the outputs, side outputs included, because forward was
  /// left out. True only for ops that declare forward_in_backward().
  virtual bool makes_outputs() const = 0;
  /// The content of a constant of the graph, by the number that Graph::constant returned: device
  /// memory, aligned to 64 bytes.
  virtual const void* constant(int number) const = 0;
  /// The scratch memory declared for this call, aligned to 256 bytes; its content is undefined.
  virtual void* workspace() const = 0;
  /// The group of this rank in which an op communicates, such as Role::tensor.
  virtual Communicator& group(Role role) const = 0;
  virtual Stream& stream() const = 0;
  /// The random numbers of (seed, this op's logical name, step): the same for every layout and when
  /// recomputed. The step is read on the device: pass them to the kernel as they are.
  virtual StepRandom random() const = 0;
  /// Index, in the global batch, of the first sample (row of dim 0 of inputs) of this micro-batch.
  virtual Index first_sample() const = 0;
};

class Op : public OpTraits {
 public:
  virtual ~Op() = default;
  /// For names, reports and errors: "rms_norm".
  virtual std::string name() const = 0;
  /// Declares visible outputs, then side outputs. Throws: Error that says what is wrong with the
  /// shapes; nothing else checks them.
  virtual Outputs infer(const Specs& inputs) const = 0;
  virtual void forward(Exec& e) const = 0;
  virtual void backward(Exec& e) const = 0;

  // Defaults that need the outputs (OpTraits says what these are).
  double bytes(const Specs& inputs) const override;
  double backward_bytes(const Specs& inputs, const BackwardWork& work) const override;
};
using OpPtr = std::shared_ptr<const Op>;

}  // namespace trireme
