// Blas::prepare: every product runs once before the first step, with a result of its own; with a
// cache, the ways to compute it are timed first, and the fastest is stored.
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "kernels/cuda/blas.h"
#include "kernels/cuda/cuda_device.h"
#include "runtime/core/median.h"

namespace trireme::kernels {
namespace {

constexpr int most_candidates = 32, repetitions = 5;
constexpr const char* separate_text = "separate";

/// Memory that is zeroed before each timed run: all of it, or as much as is free, by halves.
class Sweep {
 public:
  /// Of the L2 cache, so that nothing else is left in it. To zero that much takes an H100 some
  /// 80 us, in which the host queues what is timed: the GPU does not wait for launches.
  static constexpr Index caches = 5;

  explicit Sweep(Stream& stream)
      : stream_(stream),
        wanted_(caches * properties_of(stream.device().index()).l2CacheSize),
        memory_(as_much_as_fits(stream.device(), wanted_)) {}

  void queue() const { stream_.zero(memory_.data(), memory_.bytes()); }
  /// For people: why times measured with it may be wrong. Empty: they are right.
  std::string note() const {
    if (memory_.bytes() == wanted_) return "";
    return str("timed with caches that may be warm: less than ", wanted_,
               " bytes are free to empty them");
  }

 private:
  static Buffer as_much_as_fits(Device& device, Index bytes) {
    for (; bytes > 0; bytes /= 2) try {
        return device.allocate(bytes);
      } catch (const Error&) {  // there is less
      }
    return {};
  }

  Stream& stream_;
  Index wanted_;
  Buffer memory_;
};

/// Time between two points of a stream.
class Stopwatch {
 public:
  explicit Stopwatch(Stream& stream) : stream_(stream), sweep_(stream) {
    for (cudaEvent_t& event : events_)
      check(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreate");
  }
  ~Stopwatch() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  std::string note() const { return sweep_.note(); }

  /// The median of a few times, in us, after one run that is not timed. Each finds a cold cache,
  /// and is queued whole before it starts.
  template <class F>
  double time(F&& run) {
    run();
    std::array<float, repetitions> ms{};
    for (float& one : ms) {
      sweep_.queue();
      check(cudaEventRecord(events_[0], cuda_stream_of(stream_)), "cudaEventRecord");
      run();
      check(cudaEventRecord(events_[1], cuda_stream_of(stream_)), "cudaEventRecord");
      stream_.synchronize();
      check(cudaEventElapsedTime(&one, events_[0], events_[1]), "cudaEventElapsedTime");
    }
    return static_cast<double>(median_in(std::span<float>(ms))) * 1e3;
  }

 private:
  Stream& stream_;
  Sweep sweep_;
  std::array<cudaEvent_t, 2> events_{};
};

}  // namespace

/// The same product with separate memory for all that it writes.
class Blas::Rehearsal {
 public:
  Rehearsal(Device& device, const Gemm& p) : gemm_(p) {
    const Index matrix = (p.m - 1) * p.ldc + p.n;
    gemm_.c = take(device, matrix * size_bytes(p.result));
    if (p.epilogue == Epilogue::gelu)
      gemm_.gelu_input = take(device, matrix * size_bytes(p.result));
    if (p.bias_gradient == nullptr) return;
    const Index bytes = p.m * static_cast<Index>(sizeof(float));
    gemm_.bias_gradient = static_cast<float*>(take(device, bytes));
    gemm_.workspace = take(device, bytes);
  }
  const Gemm& gemm() const { return gemm_; }

 private:
  void* take(Device& device, Index bytes) {
    memory_.push_back(device.allocate(bytes));
    return memory_.back().data();
  }
  Gemm gemm_;
  std::vector<Buffer> memory_;
};

/// "separate", or the algorithm's eight words in hexadecimal: it may be stored for the same version
/// of cuBLASLt.
std::string Blas::to_text(const Choice& choice) {
  if (choice.fusion == Fusion::separate) return separate_text;
  std::string text = "algorithm";
  for (const std::uint64_t word : choice.algorithm.data) text += fmt::format(" {:016x}", word);
  return text;
}

bool Blas::from_text(const std::string& text, const BlasProduct& product, Choice& choice) {
  if (text == separate_text) {
    choice = {Fusion::separate, {}};
    return true;
  }
  BlasProduct::Algorithm algorithm{};
  std::size_t at = text.find(' ');
  for (std::uint64_t& word : algorithm.data) {
    if (at == std::string::npos) return false;
    const char* const end = text.data() + text.size();
    if (std::from_chars(text.data() + at + 1, end, word, 16).ec != std::errc()) return false;
    at = text.find(' ', at + 1);
  }
  if (!product.accepts(algorithm)) return false;
  choice = {Fusion::fused, algorithm};
  return true;
}

/// Times cuBLASLt's recommendations in their order, then separate passes; of equal times the first
/// one wins. One that fails to run is not a candidate.
Blas::Choice Blas::fastest(CudaStream& stream, const Gemm& rehearsed, const Plan& plan,
                           std::string& note) {
  std::vector<Choice> candidates;
  for (const auto& algorithm : plan.product.recommended(most_candidates))
    candidates.push_back({Fusion::fused, algorithm});
  if (!is_plain(rehearsed)) candidates.push_back({Fusion::separate, {}});
  Stopwatch stopwatch(stream);
  note = stopwatch.note();
  const auto time = [&](const Choice& candidate) {
    try {
      return stopwatch.time([&] { run(stream, rehearsed, plan.product, candidate); });
    } catch (const Error&) {
      return std::numeric_limits<double>::infinity();
    }
  };
  Choice best = plan.choice;
  double best_us = std::numeric_limits<double>::infinity();
  for (const Choice& candidate : candidates)
    if (const double us = time(candidate); us < best_us) {
      best_us = us;
      best = candidate;
    }
  return best;
}

/// Sets `plan.choice` to the choice in the cache. Without memory for timing it keeps the first
/// choice and still publishes it, because ranks must agree.
GemmPreparation Blas::choose(CudaStream& stream, const Gemm& p, const Rehearsal* rehearsal,
                             Plan& plan) {
  const std::string product = ProductKey::of(p).text();
  GemmPreparation result{GemmPreparation::Source::stored, ""};
  GemmCache::Entry entry = cache_.find(product);
  if (entry.state == GemmCache::Entry::State::missing) {
    result.source = GemmPreparation::Source::timed;
    const Choice choice =
        rehearsal == nullptr ? plan.choice : fastest(stream, rehearsal->gemm(), plan, result.note);
    entry = cache_.publish(product, to_text(choice));
  }
  if (entry.state != GemmCache::Entry::State::good)
    return {GemmPreparation::Source::first, entry.why};
  if (!from_text(entry.choice, plan.product, plan.choice))
    return {GemmPreparation::Source::first,
            str("product ", product, ": cuBLASLt does not take the stored algorithm")};
  return result;
}

GemmPreparation Blas::prepare(CudaStream& stream, const Gemm& p) {
  stream.gemm_workspace();
  Plan& plan = plan_of(p);
  GemmPreparation result;
  if (!is_plain(p)) {
    result = prepare(stream, plain_part(p));
    if (!may_fuse(p)) return result;
    result.source = GemmPreparation::Source::first;
  }
  if (plan.prepared) return result;
  std::optional<Rehearsal> rehearsal;
  std::string no_memory;
  try {
    rehearsal.emplace(stream.device(), p);
  } catch (const Error& error) {
    no_memory = str("product ", ProductKey::of(p).text(), " was not tried: ", error.what());
  }
  if (cache_.on()) result = choose(stream, p, rehearsal ? &*rehearsal : nullptr, plan);
  if (rehearsal && plan.choice.fusion == Fusion::fused) {  // the plain product has run already
    run(stream, rehearsal->gemm(), plan.product, plan.choice);
    stream.synchronize();
  }
  if (result.note.empty()) result.note = no_memory;
  plan.prepared = true;
  return result;
}

}  // namespace trireme::kernels
