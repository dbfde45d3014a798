#include "runtime/layouts/unequal/families.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "trireme/core/error.h"

#include "runtime/core/at.h"
#include "runtime/layouts/search/candidates.h"

namespace trireme::layouts {
namespace {

constexpr std::size_t most_packings = 3;

template <class T>
std::vector<T> pinned(const std::optional<Index>& pin, std::vector<T> all) {
  if (!pin) return all;
  return {static_cast<T>(*pin)};
}

/// All subsets of two groups and more.
std::vector<std::vector<int>> subsets(std::size_t groups) {
  std::vector<std::vector<int>> all;
  for (unsigned mask = 1; mask < (1U << groups); ++mask) {
    std::vector<int> one;
    for (unsigned g = 0; g < groups; ++g)
      if ((mask & (1U << g)) != 0) one.push_back(static_cast<int>(g));
    if (one.size() > 1) all.push_back(std::move(one));
  }
  return all;
}

/// Whether another family has it: of one type, or each pipeline of one type and all cut alike.
bool is_of_another_family(const UnequalPlan& plan) {
  const unsigned groups = plan.groups();
  if (plan.kinds.size() < 2 || (groups & (groups - 1)) == 0) return true;
  return why_not_launched(plan).empty() &&
         std::all_of(plan.kinds.begin(), plan.kinds.end(), [](const PipelineKind& kind) {
           return std::set<int>(kind.types.begin(), kind.types.end()).size() == 1;
         });
}

}  // namespace

Families::Families(const TrainingTask& task, std::vector<GpuType>& types, ModelCut& cut,
                   const LayoutPins& pins)
    : task_(task), types_(types), cut_(cut), pins_(pins) {}

std::vector<UnequalPlan> Families::list() {
  const std::vector<Layout> all = settings();
  // Mixes last: what is found before bounds them.
  for (const auto add : {&Families::take_setting, &Families::add_mixed})
    for (const Layout& setting : all) try {
        (this->*add)(setting);
      } catch (const Error&) {  // the model has no such layout
      }
  std::stable_sort(plans_.begin(), plans_.end(), [](const UnequalPlan& a, const UnequalPlan& b) {
    return a.estimate < b.estimate;
  });
  return std::move(plans_);
}

std::vector<int> Families::tensor_sizes() const {
  std::set<int> sizes;
  for (const GpuType& type : types_)
    for (const int size : divisors_of(type.group().per_node, type.group().per_node))
      sizes.insert(size);
  return pinned(pins_.tensor, std::vector<int>(sizes.begin(), sizes.end()));
}

std::vector<Layout> Families::settings() const {
  std::vector<Layout> all;
  Layout layout;
  for (const int tensor : tensor_sizes()) {
    layout.tensor = tensor;
    layout.sequence_parallel = tensor > 1 && pins_.sequence_parallel.value_or(1) == 1;
    for (const int micro_batch :
         pinned(pins_.micro_batch,
                micro_batches_of_samples(task_, task_.options().global_batch_size))) {
      layout.micro_batch = micro_batch;
      for (const int chunks : pinned(pins_.head_chunks, head_chunks_of(task_, micro_batch))) {
        layout.head_chunks = chunks;
        for (const RecomputeGranularity recompute :
             {RecomputeGranularity::none, RecomputeGranularity::selective,
              RecomputeGranularity::full}) {
          layout.recompute = recompute;
          if (!pins_.recompute || *pins_.recompute == recompute) all.push_back(layout);
        }
      }
    }
  }
  return all;
}

int Families::tensor_groups(int group, int tensor) const {
  const GpuGroup& gpus = types_[at(group)].group();
  return gpus.per_node % tensor == 0 ? gpus.gpus() / tensor : 0;
}

int Families::common_divisor(const std::vector<int>& groups, int tensor) const {
  int divisor = 0;
  for (const int group : groups) {
    const int count = tensor_groups(group, tensor);
    if (count == 0) return 0;
    divisor = std::gcd(divisor, count);
  }
  return divisor;
}

Index Families::micro_batches(const Layout& layout) const {
  const Index batch = task_.options().global_batch_size;
  return batch % layout.micro_batch == 0 ? batch / layout.micro_batch : 0;
}

void Families::set_replicas(Layout& layout, int count) const {
  layout.data = count;
  layout.sharded = count > 1 && pins_.sharded.value_or(1) == 1;
}

void Families::take_setting(const Layout& setting) {
  for (const std::vector<int>& groups : subsets(types_.size())) {
    add_replicas(groups, setting);
    add_pipelines(groups, setting);
  }
}

void Families::add_replicas(const std::vector<int>& groups, Layout layout) {
  const int common = common_divisor(groups, layout.tensor);
  for (const int stages : divisors_of(common, std::min<Index>(most_stages, common))) {
    if (stages > task_.model().num_layers) break;
    layout.pipeline = stages;
    int replicas = 0;
    for (const int group : groups) replicas += tensor_groups(group, layout.tensor) / stages;
    set_replicas(layout, replicas);
    UnequalPlan plan;
    plan.layout = layout;
    std::vector<Workers> workers;
    for (const int group : groups) {
      PipelineKind kind{std::vector<int>(at(stages), group),
                        cut_.equal(stages),
                        tensor_groups(group, layout.tensor) / stages,
                        {}};
      const auto worker = worker_of(types_, kind, layout, micro_batches(layout), false);
      if (!worker) break;
      workers.push_back(*worker);
      plan.kinds.push_back(std::move(kind));
    }
    if (workers.size() == groups.size()) add(std::move(plan), workers);
  }
}

void Families::add_pipelines(const std::vector<int>& groups, Layout layout) {
  const int common = common_divisor(groups, layout.tensor);
  for (const int replicas : divisors_of(common, common)) {
    std::vector<int> stages(types_.size(), 0);
    for (const int group : groups)
      stages[at(group)] = tensor_groups(group, layout.tensor) / replicas;
    layout.pipeline = std::accumulate(stages.begin(), stages.end(), 0);
    if (layout.pipeline > std::min<Index>(most_stages, task_.model().num_layers)) continue;
    set_replicas(layout, replicas);
    std::vector<int> order = groups;
    do add_pipeline(order_of(order, stages), layout, replicas);
    while (std::next_permutation(order.begin(), order.end()));
  }
}

void Families::add_pipeline(const std::vector<int>& order, const Layout& layout, int replicas) {
  auto kind = cut_pipeline(types_, order, layout, task_.model().num_layers);
  if (!kind) return;
  kind->count = replicas;
  const auto worker = worker_of(types_, *kind, layout, micro_batches(layout));
  if (!worker) return;
  UnequalPlan plan;
  plan.family = Family::pipeline;
  plan.layout = layout;
  plan.kinds = {std::move(*kind)};
  add(std::move(plan), {*worker});
}

void Families::add_mixed(const Layout& setting) {
  const Index blocks = task_.model().num_layers;
  Supply supply;
  double most_rate = 0;
  for (std::size_t type = 0; type < types_.size(); ++type) {
    const double each = types_[type].stage(setting, {}).each;
    supply.available.push_back(tensor_groups(static_cast<int>(type), setting.tensor));
    supply.ideal.push_back(1 / (each * static_cast<double>(blocks)));
    most_rate += supply.available.back() * supply.ideal.back();
  }
  // It cannot be faster than what was found.
  const auto items = static_cast<double>(micro_batches(setting));
  if (most_rate == 0 || (best_ > 0 && items / most_rate >= best_)) return;
  const MixedKinds found = find_kinds(types_, supply, setting, blocks, pins_);
  for (const auto& counts : pack_mixes(found.mixes, supply.available, supply.ideal, most_packings))
    add_packing(found.kinds, counts, setting);
}

void Families::add_packing(const std::vector<PipelineKind>& kinds, const std::vector<int>& counts,
                           const Layout& setting) {
  UnequalPlan plan;
  plan.family = Family::mixed;
  plan.layout = setting;
  set_replicas(plan.layout, std::accumulate(counts.begin(), counts.end(), 0));
  std::vector<Workers> workers;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    plan.kinds.push_back(kinds[i]);
    plan.kinds.back().count = counts[i];
    const auto worker =
        worker_of(types_, plan.kinds.back(), plan.layout, micro_batches(setting), false);
    if (!worker) return;
    workers.push_back(*worker);
  }
  if (is_of_another_family(plan)) return;
  plan.layout.pipeline = plan.kinds.front().stages();
  add(std::move(plan), workers);
}

/// Whether the data ranks together have memory for all of it.
bool Families::holds_optimizer(const UnequalPlan& plan) const {
  if (plan.kinds.size() < 2 || !plan.layout.sharded) return true;
  double sum = 0;
  for (const PipelineKind& kind : plan.kinds)
    sum += kind.count * most_of_optimizer(types_, kind, plan.layout);
  return sum >= 1;
}

void Families::add(UnequalPlan plan, const std::vector<Workers>& pipelines) {
  if (!pins_.match(plan.layout) || !holds_optimizer(plan)) return;
  const auto shares = share(pipelines, micro_batches(plan.layout));
  if (!shares) return;
  for (std::size_t k = 0; k < plan.kinds.size(); ++k) {
    plan.kinds[k].share = (*shares)[k];
    plan.estimate = std::max(plan.estimate, seconds_of(pipelines[k], (*shares)[k]));
  }
  double traffic = 0;
  for (const PipelineKind& kind : plan.kinds)
    for (const int type : std::set<int>(kind.types.begin(), kind.types.end()))
      traffic = std::max(traffic, types_[at(type)].data_seconds(plan.layout));
  plan.estimate += traffic;
  if (best_ == 0 || plan.estimate < best_) best_ = plan.estimate;
  plans_.push_back(std::move(plan));
}

}  // namespace trireme::layouts
