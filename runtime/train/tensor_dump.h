// Writes logical tensors to one file, whatever the layout: every rank puts the boxes it holds in
// their place. For comparisons between layouts; needs a file system that all ranks share.
//   PREFIX.f32    the tensors, packed fp32, one after the other in the order of the model
//   PREFIX.index  a line each: name, dims separated by x ("-" for a scalar), offset in bytes
#pragma once

#include <string>
#include <vector>

#include "trireme/core/box.h"
#include "trireme/job/run.h"

#include "runtime/optim/flat_parameters.h"

namespace trireme::train {

/// Part of a logical tensor in memory of the device, f32 or bf16 as its extent says: box i of the
/// extent is packed at `boxes[i]`.
struct TensorPart {
  Extent extent;
  std::vector<const void*> boxes;
  Index place = 0;  // the tensor's place in the model, the same on all ranks
};

/// Collective over the world. `mine`: what this rank is to write; over all ranks every element
/// occurs once.
void dump_tensors(const std::string& prefix, const std::vector<TensorPart>& mine,
                  const Context& context);

/// Collective. Both write with --dump-tensors, and do nothing without it. `flat` is bound;
/// gradients are reduced.
void dump_parameters(const FlatParameters& flat, const Context& context);
void dump_gradients(const FlatParameters& flat, const Context& context);

}  // namespace trireme::train
