// OpTraits: the properties of an op besides its four methods (graph/op.h): what backward reads,
// which memory may be shared, which inputs, types and devices it takes, where its result lies on
// the tensor axis, and how much work it is. Everything has a default; an op overrides what differs.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/core/device.h"
#include "trireme/graph/placement.h"
#include "trireme/graph/preparation.h"
#include "trireme/graph/spec.h"
#include "trireme/graph/work.h"

namespace trireme {

class Exec;

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

/// Pairs of tensors that an op allows to share memory. These are permissions: the planner uses one
/// where it is legal.
class Sharing {
 public:
  enum class Kind { output_over_input, gradient_passes, gradient_over_input, gradient_over_output };
  struct Permission {
    Kind kind;
    int first, second;
  };
  /// Output o may be written over input i.
  Sharing& output_over_input(int o, int i) { return add(Kind::output_over_input, o, i); }
  /// The gradient of input i is exactly the gradient of output o: it is never computed (wants(i) is
  /// false) and costs nothing.
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

class OpTraits {
 public:
  // Memory.
  /// What a backward that computes these gradients reads, and nothing else: a value that only an
  /// unwanted gradient reads is not kept.
  virtual Saved saved(const BackwardWork& /*work*/) const { return Saved::nothing(); }
  virtual Sharing sharing() const { return {}; }
  virtual Index forward_workspace_bytes(const Specs& /*inputs*/) const { return 0; }
  virtual Index backward_workspace_bytes(const Specs& inputs) const {
    return forward_workspace_bytes(inputs);
  }

  // Inputs and their gradients.
  /// False for tokens, targets and masks: no gradient flows to input i.
  virtual bool differentiable(int /*input*/) const { return true; }
  /// backward can add to the gradient of input i. If not, it assigns to a temporary and the runtime
  /// adds.
  virtual bool accumulates(int /*input*/) const { return false; }
  /// Input i is a weight: backward computes its gradient in f32 whatever the type of the value,
  /// because it is summed over many micro-batches. The gradients of other inputs have the type of
  /// the input.
  virtual bool is_weight(int /*input*/) const { return false; }
  /// Input i may be strided. If not, a strided value is a trace error that names contiguous().
  virtual bool strided(int /*input*/) const { return false; }
  /// backward can compute the outputs as well (Exec::makes_outputs). Training then leaves forward
  /// out if nothing else reads them. Meant for a loss whose gradients need the same work as its
  /// value.
  virtual bool forward_in_backward() const { return false; }

  // Types and devices. What is not declared here is rejected while tracing.
  /// Whether floating-point inputs may have this type. An op must declare bf16 to work under
  /// --bf16. Beside bf16 values, statistics and losses are f32 and f64.
  virtual bool works_in(DType dtype) const { return dtype != DType::bf16; }
  /// Whether forward and backward run on this kind of device. Tensors are in device memory, so an
  /// op whose loops run on the host works on a CPU only.
  virtual bool works_on(DeviceKind kind) const { return kind == DeviceKind::cpu; }

  // The tensor axis.
  /// Placement of the outputs, from that of the inputs (parameters: replicated or sharded). The
  /// default suits ops that treat every element or row alike: sharded if any input is, else
  /// partial_gradient if any is, else replicated. Partial inputs are rejected, and so is a
  /// replicated activation together with partial_gradient or sharded ones.
  virtual Placement placement(const Placements& inputs,
                              const std::vector<bool>& is_parameter) const;
  /// Whether backward gives the replicated parameter at `input` its complete gradient on every
  /// tensor rank, for outputs with this placement. If not, it is partial, and the runtime sums it
  /// over the tensor axis.
  virtual bool completes_gradient(int /*input*/, Placement output) const {
    return output == Placement::replicated;
  }

  // Before the first step.
  /// Does the one-time work of the first forward, or backward, with such tensors: descriptors,
  /// choices by timing. Called with the tensors, the workspace and the stream of that call. May
  /// read them and wait for the stream, but must not write to any of them. Must not communicate,
  /// because other ranks may have other ops.
  virtual void prepare_forward(Exec&, Preparation&) const {}
  virtual void prepare_backward(Exec&, Preparation&) const {}

  // Work, for the cut of stages, plans and profiles.
  /// Floating-point operations of forward. The stage cut counts backward as twice that.
  virtual double flops(const Specs& inputs) const;
  /// The least bytes that forward reads and writes. Default: inputs and new outputs, once each.
  virtual double bytes(const Specs& inputs) const = 0;
  /// The FLOPs and bytes of one call of backward. Default operations: as many as forward for the
  /// gradients of weights, and as many for the other gradients (twice as many if there are no
  /// weights). Default bytes: saved tensors and gradients of outputs, read once, the gradients of
  /// inputs, and the outputs that it computes.
  virtual double backward_flops(const Specs& inputs, const BackwardWork& work) const;
  virtual double backward_bytes(const Specs& inputs, const BackwardWork& work) const = 0;
  /// Products, attention and collectives of forward, and of one call of backward, for plans that
  /// estimate time. What is not listed counts as loops over memory.
  virtual WorkParts parts(const Specs& /*inputs*/) const { return {}; }
  virtual WorkParts backward_parts(const Specs& /*inputs*/, const BackwardWork& /*work*/) const {
    return {};
  }

 protected:
  ~OpTraits() = default;
};

}  // namespace trireme
