// Continues HostCommunicator (comm/node/host_communicator.h).
// The collectives, as every member runs them. On one node: each member does its share in the
// buffers of all, which a step (arrive, then wait for all) makes visible. Several nodes: partial
// results go directly to the rank that sums them, in the order of the nodes. Sums therefore have
// one order, whatever the timing. Buffers out of reach of others go through the bounce buffers in
// chunks ("staged").
#include <algorithm>
#include <cstring>

#include "runtime/comm/node/host_communicator.h"
#include "runtime/comm/node/reduce.h"
#include "runtime/core/at.h"
#include "runtime/core/round_up.h"

namespace trireme::comm {
namespace {

struct Range {
  Index begin, count;
};

/// Part `part` of `count` elements in `parts` nearly equal parts, on borders of cache lines.
Range cut(Index count, int parts, int part, Index element_bytes) {
  const Index line = 64 / element_bytes;
  const Index each = round_up((count + parts - 1) / parts, line);
  const Index begin = std::min(count, each * part), end = std::min(count, begin + each);
  return {begin, end - begin};
}

/// At most `chunk` elements of part `part`, from its element `begin` on.
Range piece_of(const std::vector<Index>& borders, int part, Index begin, Index chunk) {
  const auto p = static_cast<std::size_t>(part);
  const Index end = borders[p + 1], first = std::min(end, borders[p] + begin);
  return {first, std::min(chunk, end - first)};
}

void copy_bytes(std::byte* to, const std::byte* from, Index bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

CollectiveTask HostCommunicator::run(const Operation& op) {
  switch (op.call.collective) {
    case Collective::all_reduce:
      return all_reduce(op);
    case Collective::reduce_scatter:
      return reduce_scatter(op);
    case Collective::all_gather:
      return all_gather(op);
    case Collective::broadcast:
      return broadcast(op);
    case Collective::barrier:
      return barrier(op);
  }
  throw Error("unknown collective");
}

/// Sets the borders of the parts; returns the elements of the largest one.
Index HostCommunicator::place_parts(const Operation& op) {
  const std::span<const Index> counts = op.parts.counts;
  Index largest = 0;
  for (std::size_t part = 0; part + 1 < borders_.size(); ++part) {
    const Index count = counts.empty() ? op.call.count : counts[part];
    borders_[part + 1] = borders_[part] + count;
    largest = std::max(largest, count);
  }
  return largest;
}

/// targets_ = the reduction over the members of this node of their `count` elements at
/// `offset_bytes` of the input.
void HostCommunicator::reduce_over_node(const Operation& op, Index offset_bytes, Index count) {
  sources_.clear();
  for (int local = 0; local < parts_.topology.locals(); ++local)
    sources_.push_back((staged_ ? bounce_of(local) : input_of(op, local)) + offset_bytes);
  reduce(op.call.dtype, op.call.reduction, sources_, targets_, count);
}

/// to = the reduction over the nodes, in their order, of this node's `partial` and of what came
/// from the others.
void HostCommunicator::reduce_over_nodes(const Operation& op, const std::byte* partial,
                                         const std::byte* incoming, Index count, std::byte* to) {
  sources_.clear();
  for (int node = 0; node < parts_.topology.nodes(); ++node) {
    sources_.push_back(node == parts_.topology.node ? partial : incoming);
    if (node != parts_.topology.node) incoming += count * size_bytes(op.call.dtype);
  }
  targets_.assign(1, to);
  reduce(op.call.dtype, op.call.reduction, sources_, targets_, count);
}

/// Between the members of one lane, one on each node: of `count` elements at `partial` everyone
/// gets its own part from all.
void HostCommunicator::scatter_over_nodes(Index count, Index element, std::byte* partial,
                                          std::byte* incoming) {
  const Topology& topology = parts_.topology;
  const Index mine_bytes = cut(count, topology.nodes(), topology.node, element).count * element;
  for (int node = 0; node < topology.nodes(); ++node) {
    if (node == topology.node) continue;
    const Range theirs = cut(count, topology.nodes(), node, element);
    receive(topology.in_lane(node), incoming, mine_bytes);
    send(topology.in_lane(node), partial + theirs.begin * element, theirs.count * element);
    incoming += mine_bytes;
  }
}

/// The inverse: every member gets the parts of all.
void HostCommunicator::gather_over_nodes(Index count, Index element, std::byte* sums) {
  const Topology& topology = parts_.topology;
  const Range mine = cut(count, topology.nodes(), topology.node, element);
  for (int node = 0; node < topology.nodes(); ++node) {
    if (node == topology.node) continue;
    const Range theirs = cut(count, topology.nodes(), node, element);
    receive(topology.in_lane(node), sums + theirs.begin * element, theirs.count * element);
    send(topology.in_lane(node), sums + mine.begin * element, mine.count * element);
  }
}

/// Each of `lanes` members of a node owns a slice of the chunk: sums it over the node, then,
/// together with the members of the same lane on other nodes, over the nodes (each of them a part
/// of it), and stores the sum to all on its node.
CollectiveTask HostCommunicator::all_reduce(const Operation& op) {
  co_await until([&] { return all_posted(); });
  open(op);
  const Topology& topology = parts_.topology;
  const Index element = size_bytes(op.call.dtype), chunk = chunk_count(op, 1);
  const int lanes = topology.nodes() == 1 ? topology.locals() : topology.lanes;
  for (Index begin = 0; begin < op.call.count; begin += chunk) {
    const Index count = std::min(chunk, op.call.count - begin);
    if (staged_) {
      copy_bytes(bounce_of(topology.local()), op.in + begin * element, count * element);
      arrive();
      co_await until([&] { return all_arrived(arrived_); });
    }
    const Range slice =
        topology.local() < lanes ? cut(count, lanes, topology.local(), element) : Range{0, 0};
    const Index offset = ((staged_ ? 0 : begin) + slice.begin) * element,
                bytes = slice.count * element;
    if (topology.nodes() > 1 && topology.local() < lanes) {
      std::byte *const partial = scratch_.data(), *const incoming = partial + bytes;
      targets_.assign(1, partial);
      reduce_over_node(op, offset, slice.count);
      scatter_over_nodes(slice.count, element, partial, incoming);
      co_await until([&] { return all_passed(); });
      const Range mine = cut(slice.count, topology.nodes(), topology.node, element);
      std::byte* const sum = partial + mine.begin * element;
      reduce_over_nodes(op, sum, incoming, mine.count, sum);
      gather_over_nodes(slice.count, element, partial);
      co_await until([&] { return all_passed(); });
      for (int local = 0; local < topology.locals(); ++local)
        copy_bytes((staged_ ? bounce_of(local) : output_of(op, local)) + offset, partial, bytes);
    } else if (slice.count > 0) {
      targets_.clear();
      for (int local = 0; local < topology.locals(); ++local)
        targets_.push_back((staged_ ? bounce_of(local) : output_of(op, local)) + offset);
      reduce_over_node(op, offset, slice.count);
    }
    if (staged_) {
      arrive();
      co_await until([&] { return all_arrived(arrived_); });
      copy_bytes(op.out + begin * element, bounce_of(topology.local()), count * element);
    }
  }
}

/// Each member sums its part over the node, and the parts that it handles for ranks of other nodes,
/// which get them. In each round at most `chunk` elements of every part.
CollectiveTask HostCommunicator::reduce_scatter(const Operation& op) {
  co_await until([&] { return all_posted(); });
  open(op);
  const Topology& topology = parts_.topology;
  const Index element = size_bytes(op.call.dtype), chunk = chunk_count(op, size());
  const Index largest = place_parts(op);
  for (Index begin = 0; begin < largest; begin += chunk) {
    const auto piece = [&](int part) { return piece_of(borders_, part, begin, chunk); };
    // Where it lies in the input, or in the bounce buffer, in bytes.
    const auto place = [&](int part) {
      return (staged_ ? part * chunk : piece(part).begin) * element;
    };
    if (staged_) {
      for (int part = 0; part < size(); ++part)
        copy_bytes(bounce_of(topology.local()) + place(part), op.in + piece(part).begin * element,
                   piece(part).count * element);
      arrive();
      co_await until([&] { return all_arrived(arrived_); });
    }
    const Range mine = piece(rank());
    std::byte* const out = op.out + (mine.begin - borders_[at(rank())]) * element;
    if (topology.nodes() == 1) {
      targets_.assign(1, out);
      reduce_over_node(op, place(rank()), mine.count);
    } else {
      std::byte* partial = scratch_.data();
      const auto reduce_part = [&](int part) {
        targets_.assign(1, partial);
        reduce_over_node(op, place(part), piece(part).count);
      };
      for (int part = 0; part < size(); ++part) {
        if (topology.node_of[static_cast<std::size_t>(part)] == topology.node) continue;
        if (topology.helper(part, topology.node) != rank()) continue;
        reduce_part(part);
        const Index theirs = piece(part).count * element;
        send(part, partial, theirs);
        partial += theirs;
      }
      reduce_part(rank());
      const Index bytes = mine.count * element;
      const std::byte* const over_node = partial;
      for (int node = 0; node < topology.nodes(); ++node) {
        if (node == topology.node) continue;
        partial += bytes;
        receive(topology.helper(rank(), node), partial, bytes);
      }
      co_await until([&] { return all_passed(); });
      reduce_over_nodes(op, over_node, over_node + bytes, mine.count, out);
    }
    if (staged_) {  // before the bounce buffers are used again
      arrive();
      co_await until([&] { return all_arrived(arrived_); });
    }
  }
}

/// Every part comes to one member of each node, its helper there; all members of the node then copy
/// it from the helper. In each round at most `chunk` elements of every part.
CollectiveTask HostCommunicator::all_gather(const Operation& op) {
  co_await until([&] { return all_posted(); });
  open(op);
  const Topology& topology = parts_.topology;
  const Index element = size_bytes(op.call.dtype), chunk = chunk_count(op, size());
  const Index largest = place_parts(op);
  for (Index begin = 0; begin < largest; begin += chunk) {
    const auto piece = [&](int part) { return piece_of(borders_, part, begin, chunk); };
    const auto bytes = [&](int part) { return piece(part).count * element; };
    const auto in_in = [&](int part) { return (piece(part).begin - borders_[at(part)]) * element; };
    const auto in_out = [&](int part) { return piece(part).begin * element; };
    // Where the helper of `part` on this node keeps it.
    const auto kept = [&](int part) {
      const int helper = topology.helper(part, topology.node);
      const int local = topology.local_of[static_cast<std::size_t>(helper)];
      if (staged_) return bounce_of(local) + part * chunk * element;
      if (helper == part) return input_of(op, local) + in_in(part);
      return output_of(op, local) + in_out(part);
    };
    const std::byte* mine = op.in + in_in(rank());
    if (staged_) copy_bytes(kept(rank()), mine, bytes(rank()));
    if (topology.nodes() > 1) {
      for (int part = 0; part < size(); ++part)
        if (topology.node_of[static_cast<std::size_t>(part)] != topology.node &&
            topology.helper(part, topology.node) == rank())
          receive(part, kept(part), bytes(part));
      for (int node = 0; node < topology.nodes(); ++node)
        if (node != topology.node) send(topology.helper(rank(), node), mine, bytes(rank()));
      co_await until([&] { return all_passed(); });
    }
    if (staged_ || topology.nodes() > 1) {
      arrive();
      co_await until([&] { return all_arrived(arrived_); });
    }
    for (int part = 0; part < size(); ++part)
      copy_bytes(op.out + in_out(part), kept(part), bytes(part));
    if (staged_) {
      arrive();
      co_await until([&] { return all_arrived(arrived_); });
    }
  }
}

/// The root, or on other nodes the first member, holds the data; the others of the node copy it
/// from there.
CollectiveTask HostCommunicator::broadcast(const Operation& op) {
  co_await until([&] { return all_posted(); });
  open(op);
  const Topology& topology = parts_.topology;
  const Index element = size_bytes(op.call.dtype), chunk = chunk_count(op, 1);
  const int root = op.call.root, root_node = topology.node_of[static_cast<std::size_t>(root)];
  const int holder = root_node == topology.node ? root : topology.here()[0];
  const int holder_local = topology.local_of[static_cast<std::size_t>(holder)];
  for (Index begin = 0; begin < op.call.count; begin += chunk) {
    const Index bytes = std::min(chunk, op.call.count - begin) * element;
    std::byte* const mine = op.out + begin * element;
    std::byte* const held =
        staged_ ? bounce_of(holder_local) : output_of(op, holder_local) + begin * element;
    if (rank() == root) {
      copy_bytes(held, mine, bytes);
      for (int node = 0; node < topology.nodes(); ++node)
        if (node != topology.node)
          send(topology.ranks[static_cast<std::size_t>(node)][0], mine, bytes);
    } else if (rank() == holder) {
      receive(root, held, bytes);
    }
    co_await until([&] { return all_passed(); });
    if (staged_ || topology.nodes() > 1) {
      arrive();
      co_await until([&] { return all_arrived(arrived_); });
    }
    if (rank() != root) copy_bytes(mine, held, bytes);
    if (staged_) {
      arrive();
      co_await until([&] { return all_arrived(arrived_); });
    }
  }
}

/// Waits for all members of the node; then the first members of the nodes notify each other.
CollectiveTask HostCommunicator::barrier(const Operation& op) {
  co_await until([&] { return all_posted(); });
  open(op);
  const Topology& topology = parts_.topology;
  if (topology.local() == 0)
    for (int node = 0; node < topology.nodes(); ++node) {
      if (node == topology.node) continue;
      const int peer = topology.ranks[static_cast<std::size_t>(node)][0];
      receive(peer, nullptr, 0);
      send(peer, nullptr, 0);
    }
  co_await until([&] { return all_passed(); });
}

}  // namespace trireme::comm
