#include "tests/virtual_clock/world.h"

#include <algorithm>

#include "runtime/core/at.h"
#include "runtime/cost/stage_time.h"
#include "tests/virtual_clock/device.h"

namespace trireme::virtual_clock {
namespace {

using Kind = CollectiveWork::Kind;

double bytes_of(const Elements& x) { return static_cast<double>(x.count * size_bytes(x.dtype)); }

class VirtualCommunicator final : public Communicator {
 public:
  VirtualCommunicator(std::string name, std::shared_ptr<Group> group, int rank, Tasks& tasks)
      : name_(std::move(name)), group_(std::move(group)), rank_(rank), tasks_(tasks) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->ranks.size()); }
  std::string_view name() const override { return name_; }

  Ticket start_all_reduce(Elements x, Reduction, Stream& stream) override {
    return start(Kind::all_reduce, bytes_of(x), stream);
  }
  // A ring brings each part past all ranks but one: what it takes depends on the sum of the parts.
  Ticket start_reduce_scatter(Elements in, Elements, Reduction, Stream& stream, Parts) override {
    return start(Kind::reduce_scatter, bytes_of(in), stream);
  }
  Ticket start_all_gather(Elements, Elements out, Stream& stream, Parts) override {
    return start(Kind::all_gather, bytes_of(out), stream);
  }
  Ticket start_broadcast(Elements, int, Stream&) override {
    throw Error(name_ + " group: the planner has no time for a broadcast");
  }
  Ticket start_exchange(std::span<const Message> sends, std::span<const Message> receives,
                        Stream& stream) override {
    return {ticket(group_->exchanges.start(rank_, sends, receives, launched(stream)), true)};
  }
  void progress() override {}
  bool done(Ticket ticket) override { return ticket.sequence == 0 || end(ticket).has_value(); }
  void wait(Ticket ticket, Stream& stream) override {
    if (ticket.sequence == 0) return;
    tasks_.wait_until([&] { return end(ticket).has_value(); },
                      [&] {
                        return str("the ", name_, " group of ranks ", group_->ranks.front(), " to ",
                                   group_->ranks.back());
                      });
    static_cast<VirtualStream&>(stream).clock().device_waits(*end(ticket));
  }
  void barrier() override {
    const Index mine = ++group_->barriers[at(rank_)];
    tasks_.wait_until(
        [&] {
          return std::all_of(group_->barriers.begin(), group_->barriers.end(),
                             [&](Index entered) { return entered >= mine; });
        },
        [&] { return "a barrier of the " + name_ + " group"; });
  }

 private:
  static std::uint64_t ticket(Index number, bool exchange) {
    return static_cast<std::uint64_t>(2 * number + (exchange ? 2 : 1));
  }
  std::optional<double> end(Ticket ticket) const {
    const auto number = static_cast<Index>((ticket.sequence - 1) / 2);
    return ticket.sequence % 2 == 0 ? group_->exchanges.end(rank_, number)
                                    : group_->collectives.end(number);
  }
  static double launched(Stream& stream) {
    auto& timed = static_cast<VirtualStream&>(stream);
    timed.launch();
    return timed.clock().now();
  }
  Ticket start(Kind kind, double bytes, Stream& stream) {
    const CollectiveWork work{kind, size(), bytes};
    return {ticket(group_->collectives.start(rank_, work, launched(stream)), false)};
  }

  std::string name_;
  std::shared_ptr<Group> group_;
  int rank_;
  Tasks& tasks_;
};

class VirtualMesh final : public comm::TransportMesh {
 public:
  VirtualMesh(World& world, int rank) : TransportMesh(world.shape(), rank, {}), world_(world) {
    connect_all();
  }
  ~VirtualMesh() override { disconnect(); }
  Buffer allocate(Index bytes) override { return allocate_host(bytes); }
  std::string memory_description() const override { return "memory of a simulated rank"; }
  [[noreturn]] void abort(int code) override { std::_Exit(code); }

 private:
  std::unique_ptr<Communicator> connect(const std::string& name, const std::vector<int>& ranks,
                                        int id) override {
    const auto mine = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
    return std::make_unique<VirtualCommunicator>(name, world_.group(name, ranks, id),
                                                 static_cast<int>(mine), world_.tasks());
  }
  std::vector<int> gather(int value) override { return world_.gather(rounds_++, rank(), value); }

  World& world_;
  int rounds_ = 0;
};

}  // namespace

std::unique_ptr<Mesh> World::make_mesh(int rank) {
  return std::make_unique<VirtualMesh>(*this, rank);
}

/// As the planner counts the world: a ring for each axis.
double World::seconds(const CollectiveWork& work, const std::string& name,
                      const std::vector<int>& ranks) const {
  if (name != "world")
    return cost::ring_time(work, cost::spread_of(ranks, network_), profile_, network_);
  double sum = 0;
  for (const MeshShape::Extent& extent : shape_.axes())
    sum += cost::collective_time(work, cost::group_of(shape_, extent.axis), profile_, network_);
  return sum;
}

std::shared_ptr<Group> World::group(const std::string& name, const std::vector<int>& ranks,
                                    int id) {
  std::shared_ptr<Group>& known = groups_[{id, ranks.front()}];
  if (!known)
    known = std::make_shared<Group>(
        ranks,
        [this, name, ranks](const CollectiveWork& work) { return seconds(work, name, ranks); },
        [this, ranks](Index bytes, int from, int to) {
          return cost::message_time(static_cast<double>(bytes), ranks[at(from)], ranks[at(to)],
                                    profile_, network_);
        });
  return known;
}

std::vector<int> World::gather(int round, int rank, int value) {
  Gather& gather = gathers_[round];
  gather.values.resize(at(shape_.size()));
  gather.values[at(rank)] = value;
  ++gather.given;
  tasks().wait_until([&] { return gather.given == shape_.size(); },
                     [&] { return str("all ranks to split in round ", round); });
  return gather.values;
}

}  // namespace trireme::virtual_clock
