// Blas::prepare: which way to compute a product is the fastest, found by timing each once, on results of its own, and remembered
// in the cache.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "kernels/cuda/blas.h"
#include "kernels/cuda/cuda_device.h"

namespace trireme {
namespace {

constexpr int most_candidates = 16, repetitions = 5;
constexpr const char* separate_text = "separate";

/// Time between two points of a stream.
class Stopwatch {
 public:
  explicit Stopwatch(Stream& stream) : stream_(stream) {
    for (cudaEvent_t& event : events_)
      check(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreate");
  }
  ~Stopwatch() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  /// The least of a few times, in us, after one run that nobody times.
  template <class F>
  double time(F&& run) {
    run();
    float best = std::numeric_limits<float>::max();
    for (int i = 0; i < repetitions; ++i) {
      check(cudaEventRecord(events_[0], queue_of(stream_)), "cudaEventRecord");
      run();
      check(cudaEventRecord(events_[1], queue_of(stream_)), "cudaEventRecord");
      stream_.synchronize();
      float ms = 0;
      check(cudaEventElapsedTime(&ms, events_[0], events_[1]), "cudaEventElapsedTime");
      best = std::min(best, ms);
    }
    return static_cast<double>(best) * 1e3;
  }

 private:
  Stream& stream_;
  std::array<cudaEvent_t, 2> events_{};
};

/// The same product with memory of its own for all that it writes.
class Rehearsal {
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

}  // namespace

/// "separate", or the algorithm's eight words in hexadecimal: it may be stored for the same version of cuBLASLt.
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

/// Times cuBLASLt's recommendations in their order, then separate passes; the first of equals wins. One that fails to run is no
/// candidate. Without memory to rehearse in the first choice stands, and is published all the same: ranks must agree.
Blas::Choice Blas::fastest(CudaStream& stream, const Gemm& p, const Plan& plan, std::string& note) {
  std::optional<Rehearsal> rehearsal;
  try {
    rehearsal.emplace(stream.device(), p);
  } catch (const Error& error) {
    note = str("product ", ProductKey::of(p).text(), " was not timed: ", error.what());
    return plan.choice;
  }
  std::vector<Choice> candidates;
  for (const auto& algorithm : plan.product.recommended(most_candidates))
    candidates.push_back({Fusion::fused, algorithm});
  if (!is_plain(p)) candidates.push_back({Fusion::separate, {}});
  Stopwatch stopwatch(stream);
  const auto time = [&](const Choice& candidate) {
    try {
      return stopwatch.time([&] { run(stream, rehearsal->gemm(), plan.product, candidate); });
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

GemmPreparation Blas::prepare(CudaStream& stream, const Gemm& p) {
  stream.gemm_workspace();
  Plan& plan = plan_of(p);
  GemmPreparation result;
  if (!is_plain(p)) {
    result = prepare(stream, plain_part(p));
    if (!may_fuse(p)) return result;
    result.source = GemmPreparation::Source::first;
  }
  if (!cache_.on() || plan.prepared) return result;
  const std::string product = ProductKey::of(p).text();
  result.source = GemmPreparation::Source::stored;
  GemmCache::Entry entry = cache_.find(product);
  if (entry.state == GemmCache::Entry::State::missing) {
    result.source = GemmPreparation::Source::timed;
    entry = cache_.publish(product, to_text(fastest(stream, p, plan, result.note)));
  }
  if (entry.state != GemmCache::Entry::State::good) {
    result = {GemmPreparation::Source::first, entry.why};
  } else if (!from_text(entry.choice, plan.product, plan.choice)) {
    result = {GemmPreparation::Source::first,
              str("product ", product, ": cuBLASLt does not take the stored algorithm")};
  }
  plan.prepared = true;
  return result;
}

}  // namespace trireme
