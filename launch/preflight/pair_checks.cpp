#include "launch/preflight/pair_checks.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "trireme/core/buffer.h"

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

}  // namespace trireme::preflight
