
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "trireme/comm/agree.h"
#include "trireme/kernels/device.h"

#include "launch/calibrate/measurements.h"
#include "runtime/core/process/this_machine.h"

namespace trireme::calibrate {
namespace {

using Kind = CollectiveWork::Kind;

constexpr Index element = 4;  // f32

/// What is measured in a group of ranks; all groups of a kind at once.
struct GroupCase {
  int color, size;
  bool across;
};

/// Groups of 2, 4, ... ranks inside a node, and all of it; across nodes one rank of each, and all.
std::vector<GroupCase> group_cases(const Nodes& nodes) {
  std::vector<GroupCase> all;
  const auto inside = [&](int size) {
    all.push_back({nodes.node * nodes.ranks + nodes.place / size, size, false});
  };
  for (int size = 2; size < nodes.ranks; size *= 2)
    if (nodes.ranks % size == 0) inside(size);
  if (nodes.ranks > 1) inside(nodes.ranks);
  if (nodes.count > 1) all.push_back({nodes.place, nodes.count, true});
  if (nodes.count > 1 && nodes.ranks > 1) all.push_back({0, nodes.count * nodes.ranks, true});
  return all;
}

std::vector<Index> sizes_to_measure(DeviceKind device) {
  std::vector<Index> sizes;
  const Index most = Index{device == DeviceKind::cuda ? 64 : 16} << 20;
  for (Index bytes = 1024; bytes <= most; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

class Links {
 public:
  Links(const Context& context, Timer& timer, Communicator& group, const Buffer& memory)
      : context_(context), timer_(timer), group_(group), memory_(memory) {}

  Line collective(Kind kind, double budget_s) const {
    return line(budget_s, [&](Index bytes) { run(kind, bytes); });
  }
  /// To the next rank and from the one before.
  Line message(double budget_s) const {
    return line(budget_s, [&](Index bytes) {
      const int next = (group_.rank() + 1) % group_.size();
      const int before = (group_.rank() + group_.size() - 1) % group_.size();
      const Message sent{next, memory_.data(), bytes};
      const Message received{before, memory_.data() + memory_.bytes() / 2, bytes};
      group_.exchange({&sent, 1}, {&received, 1}, context_.stream());
    });
  }

 private:
  template <class F>
  Line line(double budget_s, F&& call) const {
    const std::vector<Index> sizes = sizes_to_measure(context_.device().kind());
    std::vector<Point> points;
    for (const Index size : sizes) {
      const Index bytes = size / (element * group_.size()) * (element * group_.size());
      const double seconds =
          timer_([&](Index) { call(bytes); }, budget_s / static_cast<double>(sizes.size()));
      points.push_back({static_cast<double>(bytes), seconds});
    }
    return fit_line(points);
  }
  void run(Kind kind, Index bytes) const {
    Stream& stream = context_.stream();
    const Index count = bytes / element, part = count / group_.size();
    const Elements all{memory_.data(), count, DType::f32};
    const Elements mine{memory_.data() + group_.rank() * part * element, part, DType::f32};
    switch (kind) {
      case Kind::all_reduce:
        return group_.all_reduce(all, Reduction::sum, stream);
      case Kind::reduce_scatter:
        return group_.reduce_scatter(all, mine, Reduction::sum, stream);
      case Kind::all_gather:
        return group_.all_gather(mine, all, stream);
    }
  }

  const Context& context_;
  Timer& timer_;
  Communicator& group_;
  const Buffer& memory_;
};

/// As a ring: alpha for each of its steps.
cost::MeasuredCollective ring_of(Kind kind, const GroupCase& one, const Line& line) {
  const int rounds = kind == Kind::all_reduce ? 2 : 1;
  const double moved = CollectiveWork{kind, one.size, 1}.ring_bytes();
  return {kind,
          one.across,
          one.size,
          {line.seconds / (rounds * (one.size - 1)), moved * line.bytes_per_s}};
}

/// Time that a second of a hidden sum adds to the products that hide it.
double measure_contention(const Context& context, Timer& timer, Communicator& group,
                          const Buffer& memory, double budget_s) {
  constexpr double products_per_sum = 2, most_products = 2000;
  Stream& stream = context.stream();
  const Index width = context.device().kind() == DeviceKind::cuda ? 2048 : 256;
  const Buffer operands = context.device().allocate(Index{64} << 20);
  fill_for_timing(stream, operands.data(), operands.bytes());
  const auto product =
      product_call(stream, {width, width, width, context.options().compute(), 0, "NT"}, operands);
  const Elements all{memory.data(), (Index{8} << 20) / element, DType::f32};
  const double sum_s =
      timer([&](Index) { group.all_reduce(all, Reduction::sum, stream); }, budget_s / 4);
  const double product_s = timer(product, budget_s / 4);
  const auto count =
      static_cast<Index>(std::clamp(products_per_sum * sum_s / product_s, 1.0, most_products));
  const auto products = [&](Index call) {
    for (Index i = 0; i < count; ++i) {
      product(call * count + i);
      group.progress();
    }
  };
  const double alone_s = timer(products, budget_s / 4);
  const double both_s = timer(
      [&](Index call) {
        const Ticket sum = group.start_all_reduce(all, Reduction::sum, stream);
        products(call);
        group.wait(sum, stream);
      },
      budget_s / 4);
  return std::max(0.0, (both_s - alone_s) / sum_s);
}

}  // namespace

Nodes find_nodes(const Host& host) {
  const std::vector<std::string> names = gather_strings(host, host_name());
  Nodes nodes;
  nodes.ranks = static_cast<int>(std::count(names.begin(), names.end(), names.front()));
  nodes.count = static_cast<int>(names.size()) / nodes.ranks;
  nodes.node = host.rank() / nodes.ranks;
  nodes.place = host.rank() % nodes.ranks;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const std::size_t first = rank - rank % static_cast<std::size_t>(nodes.ranks);
    const bool full =
        static_cast<int>(std::count(names.begin(), names.end(), names[rank])) == nodes.ranks;
    require(names[rank] == names[first] && full, "ranks are spread unequally: ", nodes.ranks,
            " are on ", names.front(), ", but rank ", rank, " is on ", names[rank],
            "; start equally many on each node, side by side");
  }
  return nodes;
}

void measure_links(const Context& context, Timer& timer, const Nodes& nodes, double budget_s,
                   cost::Profile& profile) {
  const std::vector<GroupCase> cases = group_cases(nodes);
  if (cases.empty()) return;
  const Index most = sizes_to_measure(context.device().kind()).back();
  const Buffer memory = context.mesh().allocate(2 * most);  // zeros: sums of them stay finite
  const double each_s = budget_s / static_cast<double>(4 * cases.size() + 1);
  for (const GroupCase& one : cases) {
    const std::unique_ptr<Communicator> group = context.mesh().split(one.color, "calibration");
    const Links links(context, timer, *group, memory);
    for (const Kind kind : {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather})
      profile.collectives.push_back(ring_of(kind, one, links.collective(kind, each_s)));
    cost::Link& known = one.across ? profile.across : profile.node;
    if (known.bytes_per_s > 0) continue;
    const Line line = links.message(each_s);
    known = {line.seconds, line.bytes_per_s};
  }
  const std::unique_ptr<Communicator> first =
      context.mesh().split(cases.front().color, "calibration");
  profile.contention = measure_contention(context, timer, *first, memory, each_s);
}

}  // namespace trireme::calibrate
