// NCCL (from 2.22 on) connects the ranks of a group when they first need it, not when the group is
// made, and takes buffers from the GPU for that: tens to hundreds of MiB a group. Without this that
// would be in step 1, when the arena has what was free. What it connects depends on the algorithm,
// which NCCL chooses by operation and size: hence all that a group runs, from a few bytes to the
// largest message of training. The order is the same on all ranks and each waits for one operation
// before the next one, so that groups that share ranks cannot wait for each other.
#include "runtime/train/warm_up.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "runtime/core/seconds_since.h"
#include "runtime/core/show_bytes.h"

namespace trireme::train {
namespace {

constexpr Index smallest = 8, factor = 64;
constexpr Index largest = Index{128} << 20;  // above, NCCL's choice stays the same
constexpr double seconds_worth_a_line = 5;

/// Operations on bytes whose content does not matter.
class Groups {
 public:
  Groups(Stream& stream, Buffer memory) : stream_(stream), memory_(std::move(memory)) {}

  void all_reduce(Communicator& group) {
    for_each_size([&](Index bytes) {
      group.all_reduce(floats(0, bytes / float_bytes), Reduction::sum, stream_);
    });
  }
  /// In place, as training does. `shares`: of the ranks of the group; empty: equal.
  void reduce_scatter(Communicator& group, const std::vector<Index>& shares = {}) {
    for_each_size([&](Index bytes) {
      const Divided message = divide(bytes, group, shares);
      group.reduce_scatter(message.all, message.mine, Reduction::sum, stream_, message.parts);
    });
  }
  void all_gather(Communicator& group, const std::vector<Index>& shares = {}) {
    for_each_size([&](Index bytes) {
      const Divided message = divide(bytes, group, shares);
      group.all_gather(message.mine, message.all, stream_, message.parts);
    });
  }
  void all_reduce_scalar(Communicator& group) {
    group.all_reduce({memory_.data(), 1, DType::f64}, Reduction::sum, stream_);
  }
  /// Each sends to its `peers` and receives from them, all at once.
  void exchange(Communicator& group, const std::set<int>& peers) {
    require(peers.size() <= 2, "a stage in a row or ring has ", peers.size(), " neighbours");
    for_each_size([&](Index bytes) {
      // Each neighbour has a quarter to send from, and one to receive in.
      const Index part = std::max<Index>(bytes / 4, 1);
      std::vector<Message> sends, receives;
      std::byte* at = memory_.data();
      for (const int peer : peers) {
        sends.push_back({peer, at, part});
        receives.push_back({peer, at + part, part});
        at += 2 * part;
      }
      group.exchange(sends, receives, stream_);
    });
  }

 private:
  static constexpr Index float_bytes = sizeof(float);
  /// A message, and the part of this rank.
  struct Divided {
    Elements all, mine;
    Parts parts;
  };
  Divided divide(Index bytes, const Communicator& group, const std::vector<Index>& shares) {
    const Index elements = bytes / float_bytes, rank = group.rank();
    if (shares.empty()) {
      const Index part = std::max<Index>(elements / group.size(), 1);
      return {floats(0, part * group.size()), floats(part * rank, part), {}};
    }
    std::vector<Index>& parts = parts_.emplace_back();
    const Index sum = std::accumulate(shares.begin(), shares.end(), Index{0});
    for (const Index share : shares) parts.push_back(elements * share / sum);
    const auto mine = parts.begin() + rank;
    const Index before = std::accumulate(parts.begin(), mine, Index{0});
    return {floats(0, std::accumulate(mine, parts.end(), before)), floats(before, *mine), {parts}};
  }
  Elements floats(Index begin, Index count) {
    return {memory_.data() + begin * float_bytes, count, DType::f32};
  }
  template <class F>
  void for_each_size(F f) {
    for (Index bytes = smallest; bytes < memory_.bytes(); bytes *= factor) f(bytes);
    f(memory_.bytes());
  }

  Stream& stream_;
  Buffer memory_;
  std::deque<std::vector<Index>> parts_;  // operations that are queued may read them
};

/// Collective. Bytes of the largest message of any rank, or what fits into memory.
Index message_bytes(const Context& context, const PlannedTraining& plan) {
  const Host& host = context.host();
  Index most = plan.memory_need().activations;  // no activation is larger
  for (const Bucket& bucket : plan.flat.all_buckets())
    most = std::max(most, bucket.range.count * size_bytes(DType::f32));
  constexpr Index share = 8;  // of what is free: NCCL needs the rest
  Index available = context.device().free_bytes() / (share * context.options().ranks_per_gpu);
  host.all_reduce({&most, 1, DType::i64}, Reduction::max);
  host.all_reduce({&available, 1, DType::i64}, Reduction::min);
  const Index least = smallest * context.mesh().shape().size();  // a part for each rank
  return std::max(std::min({most, largest, available}) / least, Index{1}) * least;
}

/// Stages that this one exchanges messages with in training, and so in any other pass.
std::set<int> neighbours(const StageProgram& program) {
  std::set<int> peers;
  for (const Exchange& exchange : program.exchanges)
    for (const auto* hops : {&exchange.sends, &exchange.receives})
      for (const Hop& hop : *hops) peers.insert(hop.peer);
  return peers;
}

/// Shares of data ranks in messages; empty: equal. There are equal parts beside unequal ones: of
/// buckets of a few lines, and the hashes of --check-replicas.
std::vector<std::vector<Index>> cuts_of(const FlatLayout& flat) {
  std::vector<std::vector<Index>> cuts(1);
  if (const std::vector<Index>& shares = flat.options().shares; !shares.empty())
    cuts.push_back(shares);
  return cuts;
}

void run_all(const Context& context, const PlannedTraining& plan, const TieGroups& ties,
             Groups& groups) {
  Mesh& mesh = context.mesh();
  const Options& o = context.options();
  groups.all_reduce_scalar(mesh.world());  // the gradients' norm
  if (Communicator& tensor = mesh.axis(Axis::tensor); tensor.size() > 1) {
    groups.all_reduce(tensor);
    groups.all_gather(tensor);
    groups.reduce_scatter(tensor);
  }
  if (Communicator& data = mesh.axis(Axis::data); data.size() > 1) {
    const bool loads = !o.checkpoint.load.empty() || !o.checkpoint.load_hf.empty();
    if (plan.spec.trains && !o.use_distributed_optimizer) groups.all_reduce(data);
    for (const std::vector<Index>& shares : cuts_of(plan.flat)) {
      if (plan.spec.trains && o.use_distributed_optimizer) groups.reduce_scatter(data, shares);
      if (o.use_distributed_optimizer || loads) groups.all_gather(data, shares);
    }
  }
  if (Communicator& pipeline = mesh.axis(Axis::pipeline); pipeline.size() > 1)
    groups.exchange(pipeline, neighbours(plan.train.program()));
  for (const auto& tie : ties)
    if (tie != nullptr && tie->size() > 1) groups.all_reduce(*tie);
}

}  // namespace

void warm_up_groups(const Context& context, const PlannedTraining& plan, const TieGroups& ties) {
  Mesh& mesh = context.mesh();
  Stream& stream = context.stream();
  if (stream.device().kind() == DeviceKind::cpu || mesh.shape().size() == 1) return;
  const double start = steady_seconds();
  const Index bytes = message_bytes(context, plan);
  Buffer memory;
  agree_or_stop(context.host(), [&] { memory = stream.device().allocate(bytes); });
  const Index free = stream.device().free_bytes();
  try {
    Groups groups(stream, std::move(memory));
    run_all(context, plan, ties, groups);
    stream.synchronize();
  } catch (const Error& error) {  // on a full GPU NCCL's own words say nothing of memory
    throw Error(str("ranks cannot be connected, with ", show_bytes(free), " free on GPU ",
                    stream.device().index(), ": ", error.what()));
  }
  context.host().world().barrier();  // ranks of one GPU: all have freed what they had
  const double took = seconds_since(start);
  if (took > seconds_worth_a_line)
    context.log().info(
        fmt::format("collectives: connected the ranks of all groups in {:.0f} s", took));
}

}  // namespace trireme::train
