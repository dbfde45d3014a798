#include "launch/preflight/pair_checks.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "trireme/core/buffer.h"

namespace trireme::preflight {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

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
      const auto start = Clock::now();
      if (measures) {
        send(bytes);
        receive(bytes);
        best = std::min(best, seconds_since(start));
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

/// Both ranks of the pair call it; a is the smaller one.
Pair measure(const Host& host, const std::vector<std::string>& hosts, int a, int b, Index bytes) {
  constexpr Index word = 8;
  constexpr int short_ones = 30, long_ones = 5;
  const bool measures = host.rank() == a;
  Link link(host, measures ? b : a, bytes);
  Pair pair{hosts[static_cast<std::size_t>(a)], hosts[static_cast<std::size_t>(b)]};
  pair.latency_us = link.round_trip_s(measures, word, short_ones) / 2 * 1e6;
  pair.gb_per_s =
      2 * static_cast<double>(bytes) / link.round_trip_s(measures, bytes, long_ones) / 1e9;
  return pair;
}

/// The pairs of one round, in which no rank is twice.
std::vector<Pair> measure_round(const Host& host, const std::vector<std::string>& hosts,
                                const std::vector<std::pair<int, int>>& round, Index bytes) {
  std::vector<Pair> measured;
  for (const auto& [a, b] : round)
    if (host.rank() == a || host.rank() == b) {
      const Pair pair = measure(host, hosts, a, b, bytes);
      if (host.rank() == a) measured.push_back(pair);
    }
  host.world().barrier();
  return measured;
}

}  // namespace

std::vector<Pair> measure_pairs(const Host& host, const std::vector<std::string>& hosts,
                                Index bytes) {
  const auto nodes = static_cast<int>(hosts.size());
  std::vector<Pair> all;
  for (int distance = 1; distance < nodes; distance *= 2) {
    std::vector<std::pair<int, int>> round;
    for (int a = 0; a < nodes; ++a)
      if (const int b = a ^ distance; a < b && b < nodes) round.emplace_back(a, b);
    for (Pair& pair : measure_round(host, hosts, round, bytes)) all.push_back(std::move(pair));
  }
  return all;
}

std::vector<Pair> measure_again(const Host& host, const std::vector<std::string>& hosts,
                                const std::set<std::pair<std::string, std::string>>& links,
                                Index bytes) {
  const auto nodes = static_cast<int>(hosts.size());
  const auto rank_of = [&](const std::string& name) {
    return static_cast<int>(std::find(hosts.begin(), hosts.end(), name) - hosts.begin());
  };
  std::vector<Pair> all;
  const auto one = [&](int a, int b) {
    if (a == b) return;
    for (Pair& pair : measure_round(host, hosts, {{std::min(a, b), std::max(a, b)}}, bytes))
      all.push_back(std::move(pair));
  };
  for (const auto& [from, to] : links) {
    const int a = rank_of(from), b = rank_of(to);
    one(a, b);
    // Another partner each, as far away as can be.
    const auto other = [&](int of, int not_this) {
      int partner = (of + nodes / 2) % nodes;
      while (partner == of || partner == not_this) partner = (partner + 1) % nodes;
      return partner;
    };
    if (nodes < 3) continue;
    one(a, other(a, b));
    one(b, other(b, a));
  }
  return all;
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

}  // namespace trireme::preflight
