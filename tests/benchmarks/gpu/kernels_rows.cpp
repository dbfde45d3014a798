// Rates of the kernels that work on rows of channels: norms, activations, rotary embeddings.
#include "trireme/kernels/activation.h"
#include "trireme/kernels/norm.h"
#include "trireme/kernels/rotary.h"

#include "tests/benchmarks/gpu/report.h"

namespace trireme::test {
namespace {

constexpr Index channels = 4096, head_dim = 128, sequence = 1024;

void norms(GpuBench& b, Report& report, DType dtype, NormKind kind) {
  const Index row_bytes = channels * size_bytes(dtype);
  const std::string which = kind == NormKind::rms ? "rms_norm" : "layer_norm";
  const Index rows = report.rows(4 * row_bytes), count = rows * channels;
  const bool layer = kind == NormKind::layer;
  {
    NormForward p{};
    p.kind = kind;
    p.rows = rows;
    p.channels = channels;
    p.epsilon = 1e-5f;
    p.x = b.make(dtype, count);
    p.delta = b.make(dtype, count);
    p.weight = b.make(dtype, channels);
    p.bias = layer ? b.make(dtype, channels) : nullptr;
    p.sum = b.bytes(rows * row_bytes);
    p.y = b.bytes(rows * row_bytes);
    p.mean = layer ? b.floats(rows) : nullptr;
    p.rstd = b.floats(rows);
    p.dtype = dtype;
    report.line(which + "_forward", dtype, 4 * rows * row_bytes,
                [&] { b.kernels().norm.forward(b.stream(), p); });
  }
  NormBackward p{};
  p.kind = kind;
  p.rows = rows;
  p.channels = channels;
  p.s = b.make(dtype, count);
  p.weight = b.make(dtype, channels);
  p.mean = layer ? b.floats(rows) : nullptr;
  p.rstd = b.floats(rows, 0.5, 1.5);
  p.dy = b.make(dtype, count);
  p.dx = b.bytes(rows * row_bytes);
  p.dsum = p.dx;
  p.dweight = b.floats(channels);
  p.dbias = layer ? b.floats(channels) : nullptr;
  p.workspace = b.bytes(norm_backward_workspace_bytes(b.device().traits(), rows, channels));
  p.dtype = dtype;
  report.line(which + "_backward", dtype, 4 * rows * row_bytes,
              [&] { b.kernels().norm.backward(b.stream(), p); });
}

void activations(GpuBench& b, Report& report, DType dtype) {
  const Index bytes = size_bytes(dtype);
  {
    const Index count = report.rows(2 * bytes);
    const ActivationForward p{Activation::gelu_tanh, count, b.make(dtype, count),
                              b.bytes(count * bytes), dtype};
    report.line("gelu_forward", dtype, 2 * count * bytes,
                [&] { b.kernels().activation.forward(b.stream(), p); });
  }
  {
    const Index count = report.rows(3 * bytes);
    ActivationBackward p{};
    p.kind = Activation::gelu_tanh;
    p.count = count;
    p.x = b.make(dtype, count);
    p.dy = b.make(dtype, count);
    p.dx = b.bytes(count * bytes);
    p.dtype = dtype;
    report.line("gelu_backward", dtype, 3 * count * bytes,
                [&] { b.kernels().activation.backward(b.stream(), p); });
  }
  {
    const Index rows = report.rows(3 * channels * bytes), count = rows * channels;
    const SwigluForward p{rows, channels, b.make(dtype, 2 * count), b.bytes(count * bytes), dtype};
    report.line("swiglu_forward", dtype, 3 * count * bytes,
                [&] { b.kernels().activation.swiglu_forward(b.stream(), p); });
  }
  const Index rows = report.rows(5 * channels * bytes), count = rows * channels;
  SwigluBackward p{};
  p.rows = rows;
  p.channels = channels;
  p.gate_up = b.make(dtype, 2 * count);
  p.dy = b.make(dtype, count);
  p.dgate_up = b.bytes(2 * count * bytes);
  p.dtype = dtype;
  report.line("swiglu_backward", dtype, 5 * count * bytes,
              [&] { b.kernels().activation.swiglu_backward(b.stream(), p); });
}

void rotary(GpuBench& b, Report& report, DType dtype) {
  const Index bytes = size_bytes(dtype), heads = channels / head_dim;
  const Index rows = report.rows(2 * channels * bytes) / sequence * sequence + sequence;
  void* x = b.make(dtype, rows * channels);
  float* table = b.floats(sequence * head_dim);
  Rotary p{};
  p.direction = Rotary::Direction::forward;
  p.rows = rows;
  p.sequence = sequence;
  p.heads = heads;
  p.head_dim = head_dim;
  p.row_stride = channels;
  p.x = p.y = x;
  p.table = table;
  p.dtype = dtype;
  report.line("rotary", dtype, 2 * rows * channels * bytes,
              [&] { b.kernels().rotary.run(b.stream(), p); });
}

}  // namespace

void benchmark_rows(GpuBench& bench, Report& report, DType dtype) {
  norms(bench, report, dtype, NormKind::rms);
  norms(bench, report, dtype, NormKind::layer);
  activations(bench, report, dtype);
  rotary(bench, report, dtype);
}

}  // namespace trireme::test
