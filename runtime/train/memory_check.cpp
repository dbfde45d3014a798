// Ranks of a node share its memory, those of a GPU the GPU's: each rank reports what it needs of
// each memory.
#include "runtime/train/memory_check.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "trireme/comm/agree.h"

#include "runtime/checkpoint/load.h"
#include "runtime/checkpoint/run_names.h"
#include "runtime/checkpoint/tiers/memory_tier.h"
#include "runtime/core/process/this_machine.h"
#include "runtime/core/show_bytes.h"
#include "runtime/rank_plan/rank_memory.h"
#include "runtime/store/tiers/slots.h"

namespace trireme::train {
namespace {

/// Bytes that a rank needs of one place.
struct Claim {
  std::string place;  // without spaces
  Index bytes;
};

std::string pack(const std::vector<Claim>& claims) {
  std::string text;
  for (const Claim& claim : claims) text += fmt::format("{} {} ", claim.place, claim.bytes);
  return text;
}

std::vector<Claim> unpack(const std::string& text) {
  std::vector<Claim> claims;
  std::istringstream in(text);
  for (Claim claim; in >> claim.place >> claim.bytes;) claims.push_back(claim);
  return claims;
}

/// What all ranks together need of a place. `speaker`: the rank that needs most, which reports.
struct Demand {
  Index bytes = 0, most = 0;
  int ranks = 0, speaker = 0;
};

Demand demand_of(const std::string& place, const std::vector<std::string>& ranks) {
  Demand demand;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const Claim& claim : unpack(ranks[rank])) {
      if (claim.place != place) continue;
      demand.bytes += claim.bytes;
      ++demand.ranks;
      if (claim.bytes > demand.most)
        demand.most = claim.bytes, demand.speaker = static_cast<int>(rank);
    }
  return demand;
}

std::string advice(const Context& context, const PlannedTraining& plan, const MemoryNeed& need,
                   ShortMemory where) {
  return str("on this rank ", need.describe(), "; its largest tensors:\n",
             largest_tensors(plan.train.model(), 8), "\n    what helps: ",
             memory_remedies(context.options(), context.configuration(), context.data_size(),
                             need.checkpoint > 0, where));
}

/// Collective. What is left of `bytes` for snapshots of this rank, where an earlier attempt has
/// left some in the memory of this node that this one frees or uses again: each rank has its share.
Index less_left_snapshots(const Context& context, const std::string& node, Index bytes,
                          Problems& problems) {
  if (context.options().checkpoint.save_memory_interval == 0) return bytes;
  const std::vector<std::string> claims = gather_strings(context.host(), pack({{node, bytes}}));
  std::vector<int> here;
  for (std::size_t rank = 0; rank < claims.size(); ++rank)
    if (unpack(claims[rank]).front().place == node) here.push_back(static_cast<int>(rank));
  const Index all = demand_of(node, claims).bytes;
  Index left = 0;
  problems.collect([&] { left = checkpoint::MemoryTier::bytes_of_others(context, here); });
  if (left >= all) return 0;
  const double needed = 1 - static_cast<double>(left) / static_cast<double>(all);
  return static_cast<Index>(static_cast<double>(bytes) * needed);
}

/// Collective. Snapshots of the ranks of a node share its /dev/shm. Where later attempts find less
/// there, they continue without snapshots (Checkpointer).
void check_shared_memory(const Context& context, const std::string& node, Index bytes,
                         Problems& problems) {
  const Demand demand = demand_of(node, gather_strings(context.host(), pack({{node, bytes}})));
  const Index free = store::free_snapshot_bytes();
  if (checkpoint::supervised_lineage().attempt > 1) return;
  if (demand.bytes > free && context.host().rank() == demand.speaker)
    problems.add("--save-memory-interval ", context.options().checkpoint.save_memory_interval,
                 ": snapshots of ", demand.ranks, demand.ranks == 1 ? " rank" : " ranks", " need ",
                 show_bytes(demand.bytes), " of /dev/shm on ", node, ", where ", show_bytes(free),
                 " are free (in a container: its shm size); give it more, or leave the option out");
}

}  // namespace

std::string memory_remedies(const Options& options, const KeyValues& configuration, int data_size,
                            bool checkpoint, ShortMemory where) {
  const auto value_of = [&](std::string_view option) {
    for (const auto& [name, value] : configuration)
      if (name == option) return value;
    return std::string();  // not an option of this program
  };
  std::string all;
  const auto add = [&](bool helps, const char* remedy) {
    if (helps) all += std::string(all.empty() ? "" : ", ") + remedy;
  };
  const std::string recompute = value_of("--recompute-granularity");
  const std::string chunks = value_of("--lm-head-chunks");
  add(options.micro_batch_size > 1, "a smaller --micro-batch-size");
  add(!recompute.empty() && recompute != "full", "--recompute-granularity full");
  add(chunks == "1", "--lm-head-chunks 8");
  add(data_size > 1 && !options.use_distributed_optimizer, "--use-distributed-optimizer");
  add(data_size > 1 && !options.optimizer_shares.empty(),
      "a smaller share of this data rank in --optimizer-shares");
  add(checkpoint, options.checkpoint.save_buffer == 0 ? "a --save-buffer such as 64M"
                                                      : "a smaller --save-buffer");
  if (where.of_gpu) {
    add(true, "more GPUs: more ranks for --tp or --pp");
    return all;
  }
  // Ranks of a node share its memory, so more of them on the same node would not help.
  add(data_size > 1, "a larger --tp or --pp for the same ranks");
  add(where.ranks > 1, "the same ranks on more machines");
  add(where.ranks == 1, "more machines, with a rank each for --tp or --pp");
  return all;
}

MemoryNeed memory_need(const Context& context, const PlannedTraining& plan) {
  return rank_memory(plan, [&](const PlannedTraining&, MemoryNeed& need) {
    const checkpoint::TierNeed tiers =
        checkpoint::tiers_need(context, plan.flat, plan.spec.optimizer);
    need.checkpoint = tiers.saving;
    need.snapshots = tiers.snapshots;
    need.loading = checkpoint::loading_bytes(context, plan.flat, plan.device.kind);
  });
}

int check_memory(const Context& context, const PlannedTraining& plan) {
  const Host& host = context.host();
  Device& device = context.device();
  Problems problems;
  MemoryNeed need;
  problems.collect([&] { need = memory_need(context, plan); });
  agree_on(host, problems);
  const std::string node = host_name();
  need.snapshots +=
      checkpoint::MemoryTier::more_for_copies(context, plan.flat, plan.spec.optimizer, node);
  need.snapshots = less_left_snapshots(context, node, need.snapshots, problems);
  const bool on_gpu = device.kind() == DeviceKind::cuda;
  std::vector<Claim> mine{{node, on_gpu ? need.host() : need.total()}};
  std::vector<Index> free{host.stream.device().free_bytes()};
  if (on_gpu) {
    mine.push_back({device.identity() + "-of-" + node, need.device()});
    free.push_back(device.free_bytes());
  }
  const auto all = gather_strings(host, pack(mine));
  int node_ranks = 1;
  std::string places;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const Demand demand = demand_of(mine[i].place, all);
    if (i == 0) node_ranks = demand.ranks;
    if (demand.bytes > free[i] && host.rank() == demand.speaker)
      problems.add("the plan needs ", show_bytes(demand.bytes), " for ", demand.ranks,
                   demand.ranks == 1 ? " rank" : " ranks", " on ", mine[i].place, ", where ",
                   show_bytes(free[i]), " are free; ",
                   advice(context, plan, need, {i > 0, demand.ranks}));
    places += fmt::format("; {} {} of {} free", i == 0 ? "this node" : "its GPU",
                          show_bytes(demand.bytes), show_bytes(free[i]));
  }
  if (context.options().checkpoint.save_memory_interval > 0)
    check_shared_memory(context, node, need.snapshots, problems);
  agree_on(host, problems);
  Index most = need.total();
  host.all_reduce({&most, 1, DType::i64}, Reduction::max);
  context.log().info(fmt::format("memory planned: rank 0 {} ({}); largest rank {}{}",
                                 show_bytes(need.total()), need.describe(), show_bytes(most),
                                 places));
  return node_ranks;
}

}  // namespace trireme::train
