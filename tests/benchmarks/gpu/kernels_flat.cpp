#include "tests/benchmarks/gpu/report.h"

namespace trireme::test {
namespace {

constexpr Index channels = 4096, sequence = 1024, vocabulary = 50257;
constexpr DType dtype = DType::f32;
constexpr Index bytes = 4;  // of an element

void elementwise(GpuBench& b, Report& report) {
  const ElementwiseKernels& kernels = b.kernels().elementwise;
  {
    const Index count = report.rows(3 * bytes);
    float *x = b.floats(count), *y = b.floats(count);
    report.line("accumulate", dtype, 3 * count * bytes, [&] {
      kernels.add(b.stream(), {count, y, x, y, dtype});
    });
  }
  {
    const Index count = report.rows(2 * bytes);
    float* y = b.floats(count);
    report.line("scale", dtype, 2 * count * bytes, [&] {
      kernels.scale(b.stream(), {count, y, 1.0f, dtype});
    });
  }
  {
    Dropout p{};
    p.count = report.rows(2 * bytes);
    p.rate = 0.1f;
    p.random = random_for(1, "dropout");
    float* x = b.floats(p.count);
    p.x = p.y = x;
    report.line("dropout", dtype, 2 * p.count * bytes, [&] { kernels.dropout(b.stream(), p); });
  }
  BiasBackward p{};
  p.rows = report.rows(channels * bytes);
  p.channels = channels;
  p.dy = b.floats(p.rows * channels);
  p.dbias = b.floats(channels);
  report.line("bias_backward", dtype, p.rows * channels * bytes,
              [&] { kernels.bias_backward(b.stream(), p); });
}

void embeddings(GpuBench& b, Report& report) {
  const EmbeddingKernels& kernels = b.kernels().embedding;
  {
    EmbeddingForward p{};
    p.rows = report.rows(2 * channels * bytes);
    p.channels = channels;
    p.tokens = b.tokens(p.rows, vocabulary);
    p.table = b.floats(vocabulary * channels);
    p.rows_of_table = vocabulary;
    p.y = b.floats(p.rows * channels);
    report.line("embedding", dtype, 2 * p.rows * channels * bytes,
                [&] { kernels.forward(b.stream(), p); });
  }
  {
    EmbeddingBackward p{};
    p.rows = report.rows(3 * channels * bytes);
    p.channels = channels;
    p.tokens = b.tokens(p.rows, vocabulary);
    p.dy = b.floats(p.rows * channels);
    p.dtable = b.floats(vocabulary * channels);
    p.rows_of_table = vocabulary;
    report.line("embedding_backward", dtype, 3 * p.rows * channels * bytes,
                [&] { kernels.backward(b.stream(), p); });
  }
  PositionBackward p{};
  p.rows = report.rows(channels * bytes) / sequence * sequence + sequence;
  p.channels = channels;
  p.sequence = sequence;
  p.dy = b.floats(p.rows * channels);
  p.dtable = b.floats(sequence * channels);
  report.line("position_backward", dtype, (p.rows + 2 * sequence) * channels * bytes,
              [&] { kernels.position_backward(b.stream(), p); });
}

void cross_entropy(GpuBench& b, Report& report) {
  const CrossEntropyKernels& kernels = b.kernels().cross_entropy;
  {
    CrossEntropyPartial p{};
    p.rows = report.rows(vocabulary * bytes);
    p.columns = p.row_stride = vocabulary;
    p.logits = b.floats(p.rows * vocabulary);
    p.targets = b.tokens(p.rows, vocabulary);
    p.partial = static_cast<RowPartial*>(b.bytes(p.rows * Index{sizeof(RowPartial)}));
    report.line("cross_entropy_partial", dtype, p.rows * vocabulary * bytes,
                [&] { kernels.partial(b.stream(), p); });
  }
  CrossEntropyBackward p{};
  p.rows = report.rows(2 * vocabulary * bytes);
  p.columns = p.padded_columns = p.row_stride = vocabulary;
  p.logits = b.floats(p.rows * vocabulary);
  p.targets = b.tokens(p.rows, vocabulary);
  p.logsumexp = b.floats(p.rows, 10, 11);
  p.scale = static_cast<double*>(b.bytes(8));
  p.dlogits = b.floats(p.rows * vocabulary);
  report.line("cross_entropy_backward", dtype, 2 * p.rows * vocabulary * bytes,
              [&] { kernels.backward(b.stream(), p); });
}

template <class Range>
DeviceList<Range> whole(GpuBench& b, Index count) {
  std::vector<Range> ranges(1);
  ranges[0].count = count;
  auto* memory = static_cast<std::byte*>(b.bytes(list_bytes(ranges)));
  return upload(ranges, b.stream(), memory);
}

void optimizer(GpuBench& b, Report& report) {
  const OptimizerKernels& kernels = b.kernels().optimizer;
  {
    const Index count = report.rows(bytes);
    const SumOfSquares p{whole<ListedRange>(b, count), b.floats(count),
                         static_cast<double*>(b.bytes(8))};
    report.line("sum_of_squares", dtype, count * bytes,
                [&] { kernels.sum_of_squares(b.stream(), p); });
  }
  constexpr Index adamw_bytes =
      7 * bytes + 2;  // three read and written, a gradient, a copy in bf16
  const Index count = report.rows(adamw_bytes);
  auto* decision = static_cast<StepDecision*>(b.bytes(sizeof(StepDecision)));
  kernels.decide(b.stream(), {static_cast<const double*>(b.bytes(8)), 1.0, decision});
  AdamW p{};
  p.list = whole<UpdateRange>(b, count);
  p.parameter = b.floats(count);
  p.gradient = b.floats(count);
  p.first_moment = b.floats(count);
  p.second_moment = b.floats(count, 0.5f, 1);
  p.learning_rate = 1e-4f, p.beta1 = 0.9f, p.beta2 = 0.95f, p.epsilon = 1e-8f;
  p.bias_correction1 = p.bias_correction2 = 1;
  p.decision = decision;
  p.compute_copy = static_cast<Bf16*>(b.bytes(count * 2));
  report.line("adamw", dtype, count * adamw_bytes, [&] { kernels.adamw(b.stream(), p); });
}

}  // namespace

void benchmark_flat(GpuBench& bench, Report& report) {
  elementwise(bench, report);
  embeddings(bench, report);
  cross_entropy(bench, report);
  optimizer(bench, report);
}

}  // namespace trireme::test
