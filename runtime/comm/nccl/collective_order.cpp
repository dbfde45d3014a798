#include "runtime/comm/nccl/collective_order.h"

namespace trireme::nccl {

CollectiveOrder::CollectiveOrder(Communicator& host, std::vector<int> world_ranks, Device& gpu)
    : host_(host), world_ranks_(std::move(world_ranks)), none_(gpu) {
  for (Round& round : rounds_) round.all.resize(static_cast<std::size_t>(host.size()));
}

void CollectiveOrder::start(const comm::CollectiveCall& call, Index sequence) {
  poll();
  while (sent_ - compared_ == in_flight) wait_for_one();
  Round& round = rounds_[static_cast<std::size_t>(sent_ % in_flight)];
  round.mine = {sequence, call};
  constexpr Index bytes = sizeof(StartedCall);
  round.ticket = host_.start_all_gather({&round.mine, bytes, DType::u8},
                                        {round.all.data(), bytes * host_.size(), DType::u8}, none_);
  ++sent_;  // after starting, which may call poll() of this object
}

void CollectiveOrder::poll() {
  while (pending()) {
    const Index next = compared_;
    const Round& round = rounds_[static_cast<std::size_t>(next % in_flight)];
    if (!host_.done(round.ticket)) return;
    if (compared_ != next) continue;  // done() has called poll(), which compared it
    ++compared_;
    compare(round);
  }
}

void CollectiveOrder::finish() {
  while (pending()) wait_for_one();
}

void CollectiveOrder::wait_for_one() {
  host_.wait(rounds_[static_cast<std::size_t>(compared_ % in_flight)].ticket, none_);
  poll();
}

void CollectiveOrder::compare(const Round& round) const {
  for (int r = 0; r < host_.size(); ++r) {
    const StartedCall& theirs = round.all[static_cast<std::size_t>(r)];
    require(same_operation(theirs.call, round.mine.call), host_.name(), " group: operation ",
            round.mine.sequence, " is ", describe(round.mine.call), " on ", who(host_.rank()),
            " but ", describe(theirs.call), " (operation ", theirs.sequence, " there) on ", who(r),
            ": all ranks must start the same collectives in the same order");
  }
}

std::string CollectiveOrder::who(int rank) const {
  return str("rank ", rank, " (world rank ", world_ranks_[static_cast<std::size_t>(rank)], ")");
}

}  // namespace trireme::nccl
