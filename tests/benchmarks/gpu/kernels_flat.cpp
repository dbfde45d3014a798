// Rates of the kernels that work element by element, by array or by row.
#include <set>
#include <string>

#include "trireme/kernels/cross_entropy.h"
#include "trireme/kernels/elementwise.h"
#include "trireme/kernels/embedding.h"
#include "trireme/kernels/optimizer.h"

#include "runtime/graph/device_scalars.h"
#include "tests/benchmarks/gpu/report.h"

namespace trireme::test {
namespace {

constexpr Index channels = 4096, sequence = 1024, vocabulary = 50257;
constexpr Index padded_vocabulary = 50264, logit_stride = 50304;  // as training has them

void additions(GpuBench& b, Report& report, DType dtype) {
  const ElementwiseKernels& kernels = b.kernels().elementwise;
  const Index bytes = size_bytes(dtype);
  {
    const Index count = report.rows(3 * bytes);
    void *x = b.make(dtype, count), *y = b.make(dtype, count);
    report.line("add", dtype, 3 * count * bytes, [&] {
      kernels.add(b.stream(), {count, y, x, y, dtype});
    });
  }
  Dropout p{};
  p.count = report.rows(2 * bytes);
  p.rate = 0.1f;
  const DeviceScalars scalars(b.stream());
  p.random = {random_key(1, "dropout"), scalars.data()};
  p.x = p.y = b.make(dtype, p.count);
  p.dtype = dtype;
  report.line("dropout", dtype, 2 * p.count * bytes, [&] { kernels.dropout(b.stream(), p); });
}

void biases(GpuBench& b, Report& report, DType dtype) {
  const ElementwiseKernels& kernels = b.kernels().elementwise;
  const Index row_bytes = channels * size_bytes(dtype);
  {
    const Index rows = report.rows(2 * row_bytes);
    void* x = b.make(dtype, rows * channels);
    const BiasAdd p{rows, channels, x, b.make(dtype, channels), x, dtype};
    report.line("bias", dtype, 2 * rows * row_bytes, [&] { kernels.bias_add(b.stream(), p); });
  }
  for (const Index width : {Index{768}, channels}) {  // narrow ones have few blocks
    const Index rows = report.rows(row_bytes) * channels / width;
    const BiasBackward p{rows, width, b.make(dtype, rows * width), b.floats(width), dtype};
    report.line("bias_backward_" + std::to_string(width), dtype, rows * width * size_bytes(dtype),
                [&] { kernels.bias_backward(b.stream(), p); });
  }
}

/// What buckets and compute copies go through: copies and sums between the types.
void conversions(GpuBench& b, Report& report) {
  const auto line = [&](const char* name, DType to_type, DType from_type, Write write) {
    const Index reads = size_bytes(from_type) + (write == Write::add ? size_bytes(to_type) : 0);
    const Index element_bytes = reads + size_bytes(to_type), count = report.rows(element_bytes);
    const Tensor from(b.make(from_type, count), {count}, from_type);
    const Tensor to(b.make(to_type, count), {count}, to_type);
    report.line(name, from_type, count * element_bytes,
                [&] { b.kernels().elementwise.copy_strided(b.stream(), to, from, write); });
  };
  line("cast_to_bf16", DType::bf16, DType::f32, Write::assign);
  line("cast_to_f32", DType::f32, DType::bf16, Write::assign);
  line("accumulate_in_f32", DType::f32, DType::bf16, Write::add);
  line("accumulate", DType::f32, DType::f32, Write::add);
  const Index count = report.rows(1);
  void* x = b.bytes(count);
  report.line("zero", DType::f32, count, [&] { b.stream().zero(x, count); });
}

void embeddings(GpuBench& b, Report& report, DType dtype) {
  const EmbeddingKernels& kernels = b.kernels().embedding;
  const Index row_bytes = channels * size_bytes(dtype), gradient_bytes = channels * 8;
  {
    EmbeddingForward p{};
    p.rows = report.rows(2 * row_bytes);
    p.channels = channels;
    p.tokens = b.tokens(p.rows, vocabulary);
    p.table = b.make(dtype, vocabulary * channels);
    p.rows_of_table = vocabulary;
    p.y = b.bytes(p.rows * row_bytes);
    p.dtype = dtype;
    report.line("embedding", dtype, 2 * p.rows * row_bytes,
                [&] { kernels.forward(b.stream(), p); });
  }
  EmbeddingBackward p{};
  p.rows = report.rows(row_bytes + gradient_bytes);
  p.channels = channels;
  const std::vector<std::int32_t> tokens = GpuBench::token_values(p.rows, vocabulary);
  const auto distinct =
      static_cast<Index>(std::set<std::int32_t>(tokens.begin(), tokens.end()).size());
  p.tokens = b.tokens(p.rows, vocabulary);
  p.dy = b.make(dtype, p.rows * channels);
  p.dtable = b.floats(vocabulary * channels);
  p.rows_of_table = vocabulary;
  p.workspace = b.bytes(embedding_backward_workspace_bytes(b.device().traits(), p.rows));
  p.dtype = dtype;
  report.line("embedding_backward", dtype, p.rows * row_bytes + distinct * gradient_bytes,
              [&] { kernels.backward(b.stream(), p); });
}

void positions(GpuBench& b, Report& report, DType dtype) {
  const EmbeddingKernels& kernels = b.kernels().embedding;
  const Index row_bytes = channels * size_bytes(dtype);
  {
    PositionForward p{};
    p.rows = report.rows(2 * row_bytes) / sequence * sequence + sequence;
    p.channels = channels;
    p.sequence = sequence;
    void* x = b.make(dtype, p.rows * channels);
    p.x = p.y = x;
    p.table = b.make(dtype, sequence * channels);
    p.dtype = dtype;
    report.line("position", dtype, 2 * p.rows * row_bytes,
                [&] { kernels.position_forward(b.stream(), p); });
  }
  PositionBackward p{};
  p.rows = report.rows(row_bytes) / sequence * sequence + sequence;
  p.channels = channels;
  p.sequence = sequence;
  p.dy = b.make(dtype, p.rows * channels);
  p.dtable = b.floats(sequence * channels);
  p.dtype = dtype;
  report.line("position_backward", dtype, p.rows * row_bytes + 8 * sequence * channels,
              [&] { kernels.position_backward(b.stream(), p); });
}

void cross_entropy(GpuBench& b, Report& report, DType dtype) {
  const CrossEntropyKernels& kernels = b.kernels().cross_entropy;
  const Index bytes = size_bytes(dtype);
  {
    CrossEntropyPartial p{};
    p.rows = report.rows(vocabulary * bytes);
    p.columns = vocabulary;
    p.row_stride = logit_stride;
    p.logits = b.make(dtype, p.rows * logit_stride);
    p.targets = b.tokens(p.rows, vocabulary);
    p.partial = static_cast<RowPartial*>(b.bytes(p.rows * Index{sizeof(RowPartial)}));
    p.dtype = dtype;
    report.line("cross_entropy_partial", dtype, p.rows * vocabulary * bytes,
                [&] { kernels.partial(b.stream(), p); });
  }
  CrossEntropyBackward p{};
  p.rows = report.rows(2 * vocabulary * bytes);
  p.columns = vocabulary;
  p.padded_columns = padded_vocabulary;
  p.row_stride = logit_stride;
  p.logits = b.make(dtype, p.rows * logit_stride);
  p.targets = b.tokens(p.rows, vocabulary);
  p.logsumexp = b.floats(p.rows, 10, 11);
  p.scale = static_cast<double*>(b.bytes(8));
  p.dlogits = b.bytes(p.rows * logit_stride * bytes);
  p.dtype = dtype;
  report.line("cross_entropy_backward", dtype, p.rows * (vocabulary + padded_vocabulary) * bytes,
              [&] { kernels.backward(b.stream(), p); });
}

template <class Range>
DeviceList<Range> whole(GpuBench& b, Index count) {
  std::vector<Range> ranges(1);
  ranges[0].count = count;
  auto* memory = static_cast<std::byte*>(b.bytes(list_bytes(ranges)));
  return upload(ranges, b.stream(), memory);
}

/// fp32, with a copy of the parameters in bf16 as `--bf16` has it, and without.
void optimizer(GpuBench& b, Report& report) {
  const OptimizerKernels& kernels = b.kernels().optimizer;
  {
    const Index count = report.rows(4);
    const SumOfSquares p{whole<ListedRange>(b, count), b.floats(count),
                         static_cast<double*>(b.bytes(8))};
    report.line("sum_of_squares", DType::f32, count * 4,
                [&] { kernels.sum_of_squares(b.stream(), p); });
  }
  const DeviceScalars scalars(
      b.stream(), {.learning_rate = 1e-4f, .corrected_rate = 1e-4f, .second_correction = 1});
  for (const DType compute : {DType::bf16, DType::f32}) {
    const bool copies = compute == DType::bf16;
    const Index element_bytes = 7 * 4 + (copies ? 2 : 0);  // three read and written, a gradient
    const Index count = report.rows(element_bytes);
    auto* decision = static_cast<StepDecision*>(b.bytes(sizeof(StepDecision)));
    kernels.decide(b.stream(), {static_cast<const double*>(b.bytes(8)), 1.0, decision});
    AdamW p{};
    p.list = whole<UpdateRange>(b, count);
    p.parameter = b.floats(count);
    p.gradient = b.floats(count);
    p.first_moment = b.floats(count);
    p.second_moment = b.floats(count, 0.5f, 1);
    p.beta1 = 0.9f, p.beta2 = 0.95f, p.epsilon = 1e-8f;
    p.scalars = scalars.data();
    p.decision = decision;
    p.compute_copy = copies ? static_cast<Bf16*>(b.bytes(count * 2)) : nullptr;
    report.line("adamw", compute, count * element_bytes, [&] { kernels.adamw(b.stream(), p); });
  }
}

}  // namespace

void benchmark_flat(GpuBench& bench, Report& report, DType dtype) {
  additions(bench, report, dtype);
  biases(bench, report, dtype);
  embeddings(bench, report, dtype);
  positions(bench, report, dtype);
  cross_entropy(bench, report, dtype);
}

void benchmark_update(GpuBench& bench, Report& report) {
  conversions(bench, report);
  optimizer(bench, report);
}

}  // namespace trireme::test
