// Speed of the CPU kernels at the sizes of the benchmark model (2048 tokens, width 384,
// feed-forward 1536, 6 heads of 64, sequence 256), one thread, side by side for each instruction
// set of this machine. Products are oneDNN's, which has one set in a process: the widest, or what
// TRIREME_INSTRUCTION_SET names, which is then the only set of all kernels. Compute-bound kernels
// as a share of the set's FMA peak measured at the start, memory-bound ones in GB/s of what they
// must read and write, next to memcpy over the same working set. Rates count CPU time of this
// thread, so that a busy machine disturbs them less.
#include <cstring>
#include <ctime>
#include <deque>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "trireme/core/error.h"
#include "trireme/core/random.h"
#include "trireme/kernels/activation.h"
#include "trireme/kernels/attention.h"
#include "trireme/kernels/cross_entropy.h"
#include "trireme/kernels/device.h"
#include "trireme/kernels/elementwise.h"
#include "trireme/kernels/gemm.h"
#include "trireme/kernels/kernels.h"
#include "trireme/kernels/norm.h"
#include "trireme/kernels/optimizer.h"

namespace trireme {
namespace {

constexpr Index tokens = 2048, width = 384, ffn = 1536, heads = 6, head_dim = 64, sequence = 256;

class Bench {
 public:
  explicit Bench(InstructionSet set)
      : set_(set),
        device_(open_cpu({1, set})),
        stream_(device_->make_stream()),
        peak_(measure_peak_flops(set)) {}
  InstructionSet set() const { return set_; }
  Stream& stream() { return *stream_; }
  double peak() const { return peak_; }
  const Kernels& kernels() { return device_->kernels(); }
  Device& device() { return *device_; }

 private:
  InstructionSet set_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  double peak_;
};

std::vector<float> values(Index count) {
  const Random random = random_for(1, "benchmark");
  std::vector<float> x(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) x[static_cast<std::size_t>(i)] = random.uniform(i) - 0.5f;
  return x;
}

void report_flops(benchmark::State& state, Bench& bench, double flops) {
  using Counter = benchmark::Counter;
  state.counters["GFLOP/s"] = Counter(flops * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["share_of_peak"] =
      Counter(flops / bench.peak(), Counter::kIsIterationInvariantRate);
}

void report_bytes(benchmark::State& state, Index bytes) {
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(bytes) * 1e-9,
                                              benchmark::Counter::kIsIterationInvariantRate);
  // One copy that reads and writes as many bytes in total.
  std::vector<char> from(static_cast<std::size_t>(bytes / 2), 1), to(from.size());
  double best = 1e9;
  for (int i = 0; i < 8; ++i) {
    const std::clock_t start = std::clock();
    for (int j = 0; j < 4; ++j) {
      std::memcpy(to.data(), from.data(), from.size());
      benchmark::DoNotOptimize(to.data());
      benchmark::ClobberMemory();
    }
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / 4);
  }
  state.counters["memcpy_GB/s"] = static_cast<double>(bytes) * 1e-9 / best;
}

struct Shape3 {
  const char* name;
  Index m, n, k;
  Transpose a, b;
  Write write;
  bool bias;
};

void gemm(benchmark::State& state, Bench& bench, Shape3 s) {
  const auto a = values(s.m * s.k), b = values(s.n * s.k), bias = values(s.n);
  auto c = values(s.m * s.n);
  const Gemm p = {s.m,
                  s.n,
                  s.k,
                  a.data(),
                  s.a == Transpose::no ? s.k : s.m,
                  s.a,
                  b.data(),
                  s.b == Transpose::no ? s.n : s.k,
                  s.b,
                  c.data(),
                  s.n,
                  s.write,
                  s.bias ? bias.data() : nullptr};
  for (auto _ : state) bench.kernels().gemm.run(bench.stream(), p);
  report_flops(
      state, bench,
      2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k));
}

void attention(benchmark::State& state, Bench& bench, bool backward) {
  const AttentionShape shape = {tokens / sequence, sequence, heads, heads, head_dim};
  const auto qkv = values(tokens * 3 * width), dy = values(tokens * width);
  std::vector<float> y(dy.size()), logsumexp(static_cast<std::size_t>(tokens * heads)),
      dqkv(qkv.size());
  const AttentionKernels& k = bench.kernels().attention;
  const Buffer workspace = bench.device().allocate(
      std::max(attention_forward_workspace_bytes(bench.device().traits(), shape, DType::f32,
                                                 AttentionChoice::automatic),
               attention_backward_workspace_bytes(bench.device().traits(), shape, DType::f32,
                                                  AttentionChoice::automatic)));
  const AttentionForward f = {shape, qkv.data(), y.data(), logsumexp.data(), workspace.data()};
  const AttentionBackward b = {shape,     qkv.data(),  y.data(),      logsumexp.data(),
                               dy.data(), dqkv.data(), Write::assign, workspace.data()};
  k.forward(bench.stream(), f);
  for (auto _ : state) backward ? k.backward(bench.stream(), b) : k.forward(bench.stream(), f);
  // Only the causal half counts: 2 products of the scores' size forward, 5 backward.
  const double one = 2.0 * static_cast<double>(tokens * heads * head_dim) * (sequence + 1) / 2;
  report_flops(state, bench, one * (backward ? 5 : 2));
}

void norm(benchmark::State& state, Bench& bench, NormKind kind, bool backward) {
  const auto x = values(tokens * width), delta = values(tokens * width), weight = values(width),
             bias = values(width);
  std::vector<float> sum(x.size()), y(x.size()), mean(tokens), rstd(tokens), dweight(width),
      dbias(width);
  const NormKernels& k = bench.kernels().norm;
  const Buffer workspace = bench.device().allocate(
      norm_backward_workspace_bytes(bench.device().traits(), tokens, width));
  float* means = kind == NormKind::layer ? mean.data() : nullptr;
  const NormForward f = {kind,          tokens,      width,      1e-5f,    x.data(), delta.data(),
                         weight.data(), bias.data(), sum.data(), y.data(), means,    rstd.data()};
  const NormBackward b = {kind,          tokens,          width,         sum.data(),
                          weight.data(), means,           rstd.data(),   delta.data(),
                          x.data(),      y.data(),        Write::assign, dweight.data(),
                          dbias.data(),  workspace.data()};
  k.forward(bench.stream(), f);
  for (auto _ : state) backward ? k.backward(bench.stream(), b) : k.forward(bench.stream(), f);
  report_bytes(state, 4 * tokens * width * 4);
}

void activation(benchmark::State& state, Bench& bench, Activation kind, bool backward) {
  const Index count = tokens * ffn;
  const auto x = values(count), dy = values(count);
  std::vector<float> y(x.size());
  const ActivationKernels& k = bench.kernels().activation;
  for (auto _ : state)
    backward ? k.backward(bench.stream(), {kind, count, x.data(), dy.data(), y.data()})
             : k.forward(bench.stream(), {kind, count, x.data(), y.data()});
  report_bytes(state, (backward ? 3 : 2) * count * 4);
}

void add(benchmark::State& state, Bench& bench) {
  const auto a = values(tokens * width), b = values(tokens * width);
  std::vector<float> y(a.size());
  for (auto _ : state)
    bench.kernels().elementwise.add(bench.stream(), {tokens * width, a.data(), b.data(), y.data()});
  report_bytes(state, 3 * tokens * width * 4);
}

void bias_backward(benchmark::State& state, Bench& bench) {
  const auto dy = values(tokens * ffn);
  std::vector<float> dbias(ffn);
  for (auto _ : state)
    bench.kernels().elementwise.bias_backward(bench.stream(),
                                              {tokens, ffn, dy.data(), dbias.data()});
  report_bytes(state, tokens * ffn * 4);
}

void dropout(benchmark::State& state, Bench& bench) {
  const auto x = values(tokens * width);
  std::vector<float> y(x.size());
  const StepScalars scalars;
  const StepRandom random{7, &scalars};
  for (auto _ : state)
    bench.kernels().elementwise.dropout(bench.stream(),
                                        {tokens * width, 0, 0.1f, random, x.data(), y.data()});
  report_bytes(state, 2 * tokens * width * 4);
}

void cross_entropy(benchmark::State& state, Bench& bench) {
  const Index vocabulary = 256;
  auto logits = values(tokens * vocabulary);
  std::vector<std::int32_t> targets(tokens, 3);
  std::vector<RowPartial> partial(tokens);
  std::vector<float> logsumexp(tokens), dlogits(logits.size());
  double loss = 0;
  const double scale = 1;
  const CrossEntropyKernels& k = bench.kernels().cross_entropy;
  for (auto _ : state) {
    k.partial(bench.stream(),
              {tokens, vocabulary, vocabulary, 0, logits.data(), targets.data(), partial.data()});
    k.combine(bench.stream(), {tokens, 1, partial.data(), targets.data(), logsumexp.data(), &loss});
    k.backward(bench.stream(), {tokens, vocabulary, vocabulary, vocabulary, 0, logits.data(),
                                targets.data(), logsumexp.data(), &scale, dlogits.data()});
  }
  report_bytes(state, 3 * tokens * vocabulary * 4);
}

void adamw(benchmark::State& state, Bench& bench) {
  const Index count = 12 * width * width;  // one layer
  auto x = values(count), m = values(count);
  const auto g = values(count);
  std::vector<float> v(x.size(), 0.1f);
  const UpdateRange all{{0, count}, 0, 0, 0.1f};
  const StepScalars scalars{
      .learning_rate = 1e-3f, .corrected_rate = 2e-3f, .second_correction = 2};
  const StepDecision decision{1, 1, 0};
  for (auto _ : state)
    bench.kernels().optimizer.adamw(bench.stream(), {{&all, 1},
                                                     x.data(),
                                                     g.data(),
                                                     m.data(),
                                                     v.data(),
                                                     0.9f,
                                                     0.95f,
                                                     1e-8f,
                                                     &scalars,
                                                     &decision});
  report_bytes(state, 7 * count * 4);
}

void sum_of_squares(benchmark::State& state, Bench& bench) {
  const auto x = values(12 * width * width);
  const ListedRange all{0, 12 * width * width};
  double sum = 0;
  for (auto _ : state)
    bench.kernels().optimizer.sum_of_squares(bench.stream(), {{&all, 1}, x.data(), &sum});
  report_bytes(state, 12 * width * width * 4);
}

// By `add(name, kernel, arguments...)`.
template <class Add>
void add_products(const Add& add) {
  constexpr Transpose N = Transpose::no, T = Transpose::yes;
  constexpr Write assign = Write::assign, plus = Write::add;
  for (const Shape3& s : {Shape3{"qkv", tokens, 3 * width, width, N, T, assign, true},
                          {"qkv dx", tokens, width, 3 * width, N, N, assign, false},
                          {"qkv dw", 3 * width, width, tokens, T, N, plus, false},
                          {"out", tokens, width, width, N, T, assign, true},
                          {"out dx", tokens, width, width, N, N, assign, false},
                          {"out dw", width, width, tokens, T, N, plus, false},
                          {"up", tokens, ffn, width, N, T, assign, true},
                          {"up without bias", tokens, ffn, width, N, T, assign, false},
                          {"up dx", tokens, width, ffn, N, N, assign, false},
                          {"up dw", ffn, width, tokens, T, N, plus, false},
                          {"down", tokens, width, ffn, N, T, assign, true},
                          {"down dx", tokens, ffn, width, N, N, assign, false},
                          {"down dw", width, ffn, tokens, T, N, plus, false},
                          {"logits", tokens, 256, width, N, T, assign, false}})
    add("gemm/" + std::string(s.name), gemm, s);
}

template <class Add>
void add_loops(const Add& add_one) {
  add_one("attention/forward", attention, false);
  add_one("attention/backward", attention, true);
  add_one("layer_norm/forward with residual", norm, NormKind::layer, false);
  add_one("layer_norm/backward", norm, NormKind::layer, true);
  add_one("rms_norm/forward with residual", norm, NormKind::rms, false);
  add_one("rms_norm/backward", norm, NormKind::rms, true);
  add_one("gelu_tanh/forward", activation, Activation::gelu_tanh, false);
  add_one("gelu_tanh/backward", activation, Activation::gelu_tanh, true);
  add_one("gelu_erf/forward", activation, Activation::gelu_erf, false);
  add_one("gelu_erf/backward", activation, Activation::gelu_erf, true);
  add_one("add", add);
  add_one("bias_backward", bias_backward);
  add_one("dropout", dropout);
  add_one("cross_entropy/all", cross_entropy);
  add_one("adamw", adamw);
  add_one("sum_of_squares", sum_of_squares);
}

/// Of this machine, the widest first; or what the environment names.
std::vector<InstructionSet> sets_to_time() {
  std::vector<InstructionSet> sets = {InstructionSet::avx512, InstructionSet::avx2,
                                      InstructionSet::portable};
  const InstructionSet named = instruction_set_of_environment();
  std::erase_if(sets, [&](InstructionSet set) {
    return named == InstructionSet::best ? !available(set) : set != named;
  });
  return sets;
}

/// Registered under the kernel's name and the instruction set's.
void add_one(Bench& bench, const std::string& kernel, auto f, auto... arguments) {
  benchmark::RegisterBenchmark(
      (kernel + "/" + name(bench.set())).c_str(),
      [&bench, f, arguments...](benchmark::State& state) { f(state, bench, arguments...); });
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  using namespace trireme;
  std::deque<Bench> benches;
  for (const InstructionSet set : sets_to_time()) {
    const Bench& bench = benches.emplace_back(set);
    benchmark::AddCustomContext(str("fma_peak_GFLOP/s/", name(set)), str(bench.peak() * 1e-9));
  }
  benchmark::AddCustomContext("device", benches.front().device().describe());
  add_products([&](auto... arguments) { add_one(benches.front(), arguments...); });
  add_loops([&](auto... arguments) {
    for (Bench& bench : benches) add_one(bench, arguments...);
  });
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
