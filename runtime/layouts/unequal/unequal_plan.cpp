#include "runtime/layouts/unequal/unequal_plan.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trireme::layouts {

const char* name(Family family) {
  switch (family) {
    case Family::replicas:
      return "replicas";
    case Family::pipeline:
      return "pipeline";
    case Family::mixed:
      return "mixed";
  }
  return "";
}

unsigned UnequalPlan::groups() const {
  unsigned used = 0;
  for (const PipelineKind& kind : kinds)
    for (const int type : kind.types) used |= 1U << static_cast<unsigned>(type);
  return used;
}

int UnequalPlan::gpus(int group) const {
  int sum = 0;
  for (const PipelineKind& kind : kinds)
    sum += kind.count * static_cast<int>(std::count(kind.types.begin(), kind.types.end(), group));
  return sum * layout.tensor;
}

int UnequalPlan::first_of(std::size_t kind) const {
  int before = 0;
  for (std::size_t k = 0; k < kind; ++k) before += kinds[k].count;
  return before;
}

DataShares UnequalPlan::shares() const {
  DataShares all;
  for (const PipelineKind& kind : kinds)
    for (int i = 0; i < kind.count; ++i)
      all.push_back(kind.share.each + (i < kind.share.more ? 1 : 0));
  const Index factor = std::accumulate(all.begin(), all.end(), Index{0},
                                       [](Index a, Index b) { return std::gcd(a, b); });
  for (Index& each : all) each /= std::max<Index>(1, factor);
  const bool equal = std::all_of(all.begin(), all.end(), [](Index each) { return each == 1; });
  return equal ? DataShares{} : all;
}

std::string why_not_launched(const UnequalPlan& plan) {
  const PipelineKind& first = plan.kinds.front();
  for (const PipelineKind& kind : plan.kinds) {
    if (kind.stages() != first.stages())
      return fmt::format("pipelines have {} and {} stages, and a mesh has one number of stages",
                         first.stages(), kind.stages());
    if (kind.blocks != first.blocks)
      return fmt::format(
          "pipelines are cut differently ({} and {} blocks), and --stage-speeds cuts all alike",
          fmt::join(first.blocks, "+"), fmt::join(kind.blocks, "+"));
  }
  return "";
}

}  // namespace trireme::layouts
