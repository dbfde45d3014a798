// Matrix products, attention and a copy, each alone, as the floor of a training step is added up
// from them. Reads one job a line, writes one JSON line for each:
//   gemm forward|input|weight ROWS OUT IN    y = x w^T, dx = dy w, dw += dy^T x (fp32); x (ROWS,
//                                            IN), w (OUT, IN), bf16
//   attention forward|backward BATCH SEQUENCE QUERY_HEADS KV_HEADS HEAD_DIM    causal, bf16
//   copy BYTES    of which each is read and written
// {job, ms, ms_min, ms_max, batches, tflops or gb_per_s}: ms is the median batch. A product whose
// operands would stay in the L2 cache takes turns on several copies of them, as the products of a
// step take turns on layers.
// usage: gpu_products_benchmark [GEMM_CACHE] < JOBS    GEMM_CACHE: a directory, as train_gpt's
// --gemm-cache; without it cuBLASLt's first recommendations are timed
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/kernels/attention.h"
#include "trireme/kernels/gemm.h"

#include "tests/benchmarks/gpu/gpu_bench.h"

namespace trireme::test {
namespace {

enum class Unit { tflops, gb_per_s };

/// What a line asks for: `amount` is FLOPs or bytes.
struct Job {
  std::function<void()> launch;
  double amount;
  Unit unit;
};

Gemm product(GpuBench& b, const std::string& kind, Index rows, Index out, Index in) {
  constexpr DType half = DType::bf16;
  Gemm g{};
  g.dtype = g.result = half;
  if (kind == "forward") {
    g.m = rows, g.n = out, g.k = in;
    g.a = b.make(half, rows * in), g.lda = in;
    g.b = b.make(half, out * in), g.ldb = in, g.transpose_b = Transpose::yes;
    g.c = b.bytes(rows * out * 2), g.ldc = out;
  } else if (kind == "input") {
    g.m = rows, g.n = in, g.k = out;
    g.a = b.make(half, rows * out), g.lda = out;
    g.b = b.make(half, out * in), g.ldb = in;
    g.c = b.bytes(rows * in * 2), g.ldc = in;
  } else {
    require(kind == "weight", "gemm forward, input or weight, not '", kind, "'");
    g.m = out, g.n = in, g.k = rows;
    g.a = b.make(half, rows * out), g.lda = out, g.transpose_a = Transpose::yes;
    g.b = b.make(half, rows * in), g.ldb = in;
    g.c = b.bytes(out * in * 4), g.ldc = in;
    g.result = DType::f32;
    g.write = Write::add;
  }
  g.workspace = b.bytes(gemm_workspace_bytes(b.device().traits(), g));
  return g;
}

/// So many that together they are more than any L2 cache holds.
int copies(Index rows, Index out, Index in) {
  constexpr Index beyond_l2 = Index{256} << 20, most = 16;
  const Index bytes = 2 * (rows * in + out * in + rows * out);
  return static_cast<int>(std::clamp(beyond_l2 / bytes, Index{1}, most));
}

Job gemm_job(GpuBench& b, std::istream& words) {
  std::string kind;
  Index rows = 0, out = 0, in = 0;
  words >> kind >> rows >> out >> in;
  require(!words.fail() && rows > 0 && out > 0 && in > 0, "gemm KIND ROWS OUT IN");
  std::vector<Gemm> products;
  for (int i = copies(rows, out, in); i > 0; --i)
    products.push_back(product(b, kind, rows, out, in));
  b.kernels().gemm.prepare(b.stream(), products[0]);
  return {[&b, products, next = std::size_t{0}]() mutable {
            b.kernels().gemm.run(b.stream(), products[next++ % products.size()]);
          },
          2.0 * static_cast<double>(rows) * static_cast<double>(out) * static_cast<double>(in),
          Unit::tflops};
}

Job attention_job(GpuBench& b, std::istream& words) {
  std::string kind;
  AttentionShape s{};
  words >> kind >> s.batch >> s.sequence >> s.query_heads >> s.kv_heads >> s.head_dim;
  require(!words.fail() && (kind == "forward" || kind == "backward"),
          "attention forward|backward BATCH SEQUENCE QUERY_HEADS KV_HEADS HEAD_DIM");
  const Index rows = s.batch * s.sequence, q = s.query_heads * s.head_dim;
  const Index packed = (s.query_heads + 2 * s.kv_heads) * s.head_dim;
  AttentionForward f{};
  f.shape = s;
  f.dtype = DType::bf16;
  f.qkv = b.make(DType::bf16, rows * packed);
  f.y = b.make(DType::bf16, rows * q);
  f.logsumexp = b.floats(s.batch * s.query_heads * s.sequence);
  f.workspace = b.bytes(attention_forward_workspace_bytes(b.device().traits(), s, DType::bf16,
                                                          AttentionChoice::automatic));
  // Of the two products over half of the scores; backward has five.
  const double flops =
      2.0 * static_cast<double>(rows) * static_cast<double>(s.sequence) * static_cast<double>(q);
  if (kind == "forward")
    return {[&b, f] { b.kernels().attention.forward(b.stream(), f); }, flops, Unit::tflops};
  b.kernels().attention.forward(b.stream(), f);
  AttentionBackward p{};
  p.shape = s;
  p.dtype = DType::bf16;
  p.qkv = f.qkv;
  p.y = f.y;
  p.logsumexp = f.logsumexp;
  p.dy = b.make(DType::bf16, rows * q);
  p.dqkv = b.make(DType::bf16, rows * packed);
  p.workspace = b.bytes(attention_backward_workspace_bytes(b.device().traits(), s, DType::bf16,
                                                           AttentionChoice::automatic));
  return {[&b, p] { b.kernels().attention.backward(b.stream(), p); }, 2.5 * flops, Unit::tflops};
}

Job copy_job(GpuBench& b, std::istream& words) {
  Index bytes = 0;
  words >> bytes;
  require(!words.fail() && bytes >= 4, "copy BYTES");
  void *from = b.make(DType::f32, bytes / 4), *to = b.bytes(bytes);
  return {[&b, to, from, bytes] { b.stream().copy(to, from, bytes); },
          2.0 * static_cast<double>(bytes), Unit::gb_per_s};
}

Job read_job(GpuBench& b, const std::string& line) {
  std::istringstream words(line);
  std::string what;
  words >> what;
  if (what == "gemm") return gemm_job(b, words);
  if (what == "attention") return attention_job(b, words);
  require(what == "copy", "gemm, attention or copy");
  return copy_job(b, words);
}

void run(const std::string& gemm_cache) {
  GpuBench bench(gemm_cache);
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty()) continue;
    try {
      const Job job = read_job(bench, line);
      const Timing timing = bench.time(job.launch);
      const bool flops = job.unit == Unit::tflops;
      std::printf("{\"job\":\"%s\",\"ms\":%.5f,\"%s\":%.5g%s}\n", line.c_str(), timing.median * 1e3,
                  flops ? "tflops" : "gb_per_s",
                  job.amount / timing.median * (flops ? 1e-12 : 1e-9), spread_json(timing).c_str());
      std::fflush(stdout);
    } catch (const std::exception& error) {
      throw Error(str("'", line, "': ", error.what()));
    }
    bench.clear();
  }
}

}  // namespace
}  // namespace trireme::test

int main(int argc, char** argv) {
  try {
    trireme::test::run(argc > 1 ? argv[1] : "");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_products_benchmark: %s\n", error.what());
    return 1;
  }
}
