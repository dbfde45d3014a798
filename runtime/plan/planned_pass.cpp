#include "runtime/plan/planned_pass.h"

#include <algorithm>

#include "runtime/core/round_up.h"
#include "runtime/core/show_bytes.h"
#include "runtime/graph/constants.h"

namespace trireme {
namespace {

constexpr Index alignment = 4096;

}  // namespace

PlannedPass::PlannedPass(PlannedModel model, StageProgram program)
    : model_(std::move(model)), program_(std::move(program)) {
  constexpr Index most_bytes = Index{1} << 60;
  const auto chunks = static_cast<Index>(model_.chunks.size());
  for (std::size_t c = 0; c < model_.chunks.size(); ++c)
    require(program_.slots[c] <= most_bytes / chunks / std::max<Index>(1, slot_stride(c)),
            "the schedule keeps ", program_.slots[c], " micro-batches at a time, of ",
            show_bytes(slot_stride(c)),
            " each: more than any memory; a smaller TrainingSpec::micro_batch_size or "
            "TrainingSpec::global_batch_size");
}

Index PlannedPass::slot_stride(std::size_t chunk) const {
  return round_up(model_.chunks[chunk].bytes().slot, alignment);
}

Index PlannedPass::constant_bytes() const {
  return round_up(trireme::constant_bytes(*model_.graph), alignment);
}

Index PlannedPass::slot_bytes() const {
  Index sum = 0;
  for (std::size_t c = 0; c < model_.chunks.size(); ++c) sum += program_.slots[c] * slot_stride(c);
  return sum;
}

}  // namespace trireme
