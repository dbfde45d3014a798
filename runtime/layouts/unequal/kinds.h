// Kinds of pipelines: where a model is cut for the types of their stages, and how fast they are.
//
// Not installed; modules above may include it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/layouts/unequal/gpu_type.h"
#include "runtime/layouts/unequal/unequal_plan.h"

namespace trireme::layouts {

// pack_mixes: how many replicas of each mix of GPUs to make of a cluster.

/// What a mix uses of each type, and how many micro-batches a second it runs.
struct Mix {
  std::vector<int> uses;
  double rate = 0;
};
/// Numbers of replicas of each mix that together use no more than there is: those with the highest
/// rates, best first, at most `most`. `ideal`: the rate that one of each type adds at best, which
/// bounds the enumeration.
std::vector<std::vector<int>> pack_mixes(const std::vector<Mix>& mixes,
                                         const std::vector<int>& available,
                                         const std::vector<double>& ideal, std::size_t most);

constexpr int most_stages = 64;

/// Stages of each of these types in turn. `stages`: of every type.
std::vector<int> order_of(const std::vector<int>& types, const std::vector<int>& stages);

/// A pipeline whose stages have these types, in order: `blocks` so that its slowest stage takes
/// least, as its types' memory allows; nothing: too little memory. `count` of the kind is 1.
/// `limits`: blocks that each stage may have at most; empty: as many as its memory holds.
std::optional<PipelineKind> cut_pipeline(std::vector<GpuType>& types, const std::vector<int>& order,
                                         const Layout& layout, Index blocks,
                                         const std::vector<Index>& limits = {});
/// A pipeline of that kind as a worker whose items are micro-batches. Nothing: too little memory.
/// `updates`: as in StagePlace.
std::optional<Workers> worker_of(std::vector<GpuType>& types, const PipelineKind& kind,
                                 const Layout& layout, Index micro_batches, bool updates = true);
/// Returns how much of the optimizer each data rank of that kind has memory for under ZeRO-1.
double most_of_optimizer(std::vector<GpuType>& types, const PipelineKind& kind,
                         const Layout& layout);

/// Pipelines that a mix may have.
struct MixedKinds {
  std::vector<PipelineKind> kinds;
  std::vector<Mix> mixes;
};

/// What there is, in tensor groups of each type, and what one adds at best (micro-batches a
/// second).
struct Supply {
  std::vector<int> available;
  std::vector<double> ideal;
};
/// Returns the kinds that come nearest to the ideal, for all numbers of stages that divide what
/// there is of each type, in the best order of types.
MixedKinds find_kinds(std::vector<GpuType>& types, const Supply& supply, const Layout& setting,
                      Index blocks, const LayoutPins& pins);

}  // namespace trireme::layouts
