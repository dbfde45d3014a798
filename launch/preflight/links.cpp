#include "launch/preflight/links.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include <fmt/format.h>

#include "trireme/comm/agree.h"
#include "trireme/core/buffer.h"
#include "trireme/core/error.h"

#include "runtime/core/seconds_since.h"

namespace trireme::preflight {
namespace {

class Link {
 public:
  Link(const Host& host, int peer, Index bytes)
      : host_(host), peer_(peer), bytes_(bytes), data_(allocate_host(bytes)) {}

  void send(Index bytes) { exchange(bytes, true); }
  void receive(Index bytes) { exchange(bytes, false); }
  /// The shortest round trip; the first rank of the two measures, the other one answers.
  double round_trip_s(bool measures, Index bytes, int times) {
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < times; ++i) {
      const double began = steady_seconds();
      if (measures) {
        send(bytes);
        receive(bytes);
        best = std::min(best, seconds_since(began));
      } else {
        receive(bytes);
        send(bytes);
      }
    }
    return best;
  }
  std::byte* data() const { return data_.data(); }
  Index bytes() const { return bytes_; }

 private:
  void exchange(Index bytes, bool sends) {
    const Message message{peer_, data_.data(), bytes};
    if (sends)
      host_.world().exchange({&message, 1}, {}, host_.stream);
    else
      host_.world().exchange({}, {&message, 1}, host_.stream);
  }

  const Host& host_;
  int peer_;
  Index bytes_;
  Buffer data_;
};

}  // namespace

Pair measure_link(const Host& host, const std::vector<std::string>& names, int a, int b,
                  Index bytes) {
  constexpr Index word = 8, probe = Index{64} << 10;
  constexpr int short_ones = 30, long_ones = 5;
  constexpr double longest_s = 1;
  const bool measures = host.rank() == a;
  Link link(host, measures ? b : a, std::max(bytes, probe));
  Pair pair{names[static_cast<std::size_t>(a)], names[static_cast<std::size_t>(b)]};
  pair.latency_us = link.round_trip_s(measures, word, short_ones) / 2 * 1e6;

  // What the link can do in time is a decision of the first rank.
  const double probe_s = link.round_trip_s(measures, probe, 2);
  auto* decided = reinterpret_cast<Index*>(link.data());
  if (measures) {
    const double most = longest_s / long_ones / probe_s * static_cast<double>(probe);
    *decided =
        std::max(probe, most < static_cast<double>(bytes) ? static_cast<Index>(most) : bytes);
    link.send(word);
  } else {
    link.receive(word);
  }
  const Index sent = *decided;
  pair.gb_per_s =
      2 * static_cast<double>(sent) / link.round_trip_s(measures, sent, long_ones) / 1e9;
  return pair;
}

std::vector<double> clock_offsets(const Host& host) {
  const auto date = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  constexpr int times = 5;
  const int nodes = host.world().size();
  std::vector<double> offsets(static_cast<std::size_t>(nodes));
  for (int peer = 1; peer < nodes; ++peer) {
    if (host.rank() != 0 && host.rank() != peer) continue;
    Link link(host, host.rank() == 0 ? peer : 0, Index{sizeof(double)});
    auto* word = reinterpret_cast<double*>(link.data());
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < times; ++i) {
      if (host.rank() != 0) {
        link.receive(link.bytes());
        *word = date();
        link.send(link.bytes());
        continue;
      }
      const double start = date();
      link.send(link.bytes());
      link.receive(link.bytes());
      const double end = date();
      if (end - start >= best) continue;
      best = end - start;  // of the shortest round trip half is the way of the answer
      offsets[static_cast<std::size_t>(peer)] = *word - (start + end) / 2;
    }
  }
  return offsets;
}

namespace {

/// Collective over the world. Throws: Error on all ranks when a sum of ones is wrong.
void check_sums(const Host& host, Communicator& group, Stream& stream) {
  constexpr Index count = Index{1} << 16;
  const Buffer data = stream.device().allocate(count * size_bytes(DType::f32));
  std::vector<float> values(static_cast<std::size_t>(count), 1.0F);
  stream.copy(data.data(), values.data(), data.bytes());
  group.all_reduce({data.data(), count, DType::f32}, Reduction::sum, stream);
  stream.copy(values.data(), data.data(), data.bytes());
  stream.synchronize();
  agree(host, [&] {
    const auto right = static_cast<float>(group.size());
    const auto wrong = std::count_if(values.begin(), values.end(),
                                     [right](float value) { return value != right; });
    require(wrong == 0, wrong, " of ", count, " sums of NCCL over the group '", group.name(),
            "' are wrong");
  });
}

/// Collective over the world, in which each rank has such a group. The best rate of the group of
/// this rank; ranks decide together, so that all do the same.
double bus_rate(const Host& host, Communicator& group, Stream& stream) {
  constexpr Index least = Index{1} << 20, most = Index{256} << 20;
  constexpr double long_s = 10e-3, longest_s = 5;
  constexpr int times = 5;
  check_sums(host, group, stream);
  const double all_began = steady_seconds();
  const Buffer data =
      stream.device().allocate(std::min(most, std::max(least, stream.device().free_bytes() / 4)));
  double best = 0;
  for (Index bytes = least;; bytes *= 4) {
    double shortest = 0;
    for (int i = 0; i <= times; ++i) {  // the first one connects
      host.world().barrier();
      const double began = steady_seconds();
      group.all_reduce({data.data(), bytes / size_bytes(DType::f32), DType::f32}, Reduction::sum,
                       stream);
      stream.synchronize();
      if (i > 0)
        shortest = i == 1 ? seconds_since(began) : std::min(shortest, seconds_since(began));
    }
    const double share = 2.0 * (group.size() - 1) / group.size();
    best = std::max(best, share * static_cast<double>(bytes) / shortest / 1e9);
    // The longest of any rank, the time that is used up, and the least memory of any rank.
    double agreed[] = {shortest, seconds_since(all_began), -static_cast<double>(data.bytes())};
    host.all_reduce({agreed, std::ssize(agreed), DType::f64}, Reduction::max);
    if (agreed[0] >= long_s || agreed[1] >= longest_s ||
        4.0 * static_cast<double>(bytes) > -agreed[2])
      return best;
  }
}

}  // namespace

std::vector<Group> measure_groups(const Host& host, Mesh& gpus, Stream& stream,
                                  const std::vector<std::string>& nodes) {
  const MeshShape& shape = gpus.shape();
  const int in_node = shape.size(Role::tensor), count = shape.size(Role::batch);
  double rates[3] = {};  // in node, rail, whole: of the groups of this rank
  if (in_node > 1) rates[0] = bus_rate(host, gpus.group(Role::tensor), stream);
  if (count > 1) rates[1] = bus_rate(host, gpus.group(Role::batch), stream);
  if (count > 1 && in_node > 1) rates[2] = bus_rate(host, gpus.world(), stream);

  // The rate of a group is that of its slowest rank, as all wait for it.
  std::vector<Group> groups;
  const auto add = [&](const std::string& name, const char* kind, int size, bool is_in,
                       double rate) {
    double least = is_in ? rate : 1e300;
    host.all_reduce({&least, 1, DType::f64}, Reduction::min);
    groups.push_back({name, kind, least, size});
  };
  for (int node = 0; in_node > 1 && node < count; ++node)
    add(nodes[static_cast<std::size_t>(node)], "in node", in_node,
        gpus.coordinate(Role::batch) == node, rates[0]);
  for (int gpu = 0; count > 1 && gpu < in_node; ++gpu)
    add(fmt::format("GPU {} of each node", gpu), "rail", count,
        gpus.coordinate(Role::tensor) == gpu, rates[1]);
  if (count > 1 && in_node > 1) add("all GPUs", "whole", count * in_node, true, rates[2]);
  return groups;
}

}  // namespace trireme::preflight
