// Launchers of attention: every (batch, kv head) is one piece of work, each thread has a workspace
// of its own. The loops are fp32; a piece of bf16 is widened into the workspace as an attention of
// its own.
#include "kernels/attention.h"

#include "kernels/cpu/cpu_device.h"
#include "kernels/workspace.h"

namespace trireme::kernels {

namespace {

Index whole_pages(Index bytes) { return (bytes + 4095) / 4096 * 4096; }

Index threads_used(const DeviceTraits& cpu, const AttentionShape& s) {
  return std::clamp<Index>(s.batch * s.kv_heads, 1, cpu.threads);
}

/// The loops report their workspace, and are vector code.
const AttentionLoops& loops_on(const DeviceTraits& cpu) {
  require(available(cpu.instruction_set), "DeviceTraits::instruction_set is ",
          name(cpu.instruction_set),
          ", which this machine cannot run: kernels of CPUs report their "
          "workspace themselves, so plan on a machine that runs it, or for cpu_traits()");
  return loops_for<AttentionLoops>(cpu.instruction_set);
}

/// One kv head with the query heads that share it, of one batch entry.
struct Group {
  const AttentionShape& whole;
  Index batch, kv_head;

  Index heads() const { return whole.query_heads / whole.kv_heads; }
  AttentionShape alone() const { return {1, whole.sequence, heads(), 1, whole.head_dim}; }
  Index qkv_count() const { return whole.sequence * (heads() + 2) * whole.head_dim; }
  Index y_count() const { return whole.sequence * heads() * whole.head_dim; }
  Index logsumexp_at() const {
    return (batch * whole.query_heads + kv_head * heads()) * whole.sequence;
  }

  /// f(element in the whole array, element in the group's own, how many) for all of its parts of
  /// qkv.
  template <class F>
  void each_of_qkv(F f) const {
    const Index d = whole.head_dim, width = (whole.query_heads + 2 * whole.kv_heads) * d;
    for (Index token = 0; token < whole.sequence; ++token) {
      const Index row = (batch * whole.sequence + token) * width, own = token * (heads() + 2) * d;
      f(row + kv_head * heads() * d, own, heads() * d);
      f(row + (whole.query_heads + kv_head) * d, own + heads() * d, d);
      f(row + (whole.query_heads + whole.kv_heads + kv_head) * d, own + (heads() + 1) * d, d);
    }
  }
  /// The same for y and dy.
  template <class F>
  void each_of_y(F f) const {
    const Index count = heads() * whole.head_dim;
    for (Index token = 0; token < whole.sequence; ++token)
      f((batch * whole.sequence + token) * whole.query_heads * whole.head_dim + kv_head * count,
        token * count, count);
  }
};

/// For each_of_...: copies of bf16 in fp32, and back. What is added to a bf16 array is added to
/// `own` first.
auto copy_in(Stream& stream, const void* whole, float* own) {
  return [&loops = loops_of<ConversionLoops>(stream), x = static_cast<const Bf16*>(whole), own](
             Index from, Index to, Index count) { loops.widen(x + from, own + to, count); };
}
auto copy_out(Stream& stream, float* own, void* whole, Write write) {
  return [&stream, own, y = static_cast<Bf16*>(whole), write](Index to, Index from, Index count) {
    if (write == Write::add)
      loops_of<ArrayLoops>(stream).accumulate(own + from, y + to, DType::bf16, 0, count);
    loops_of<ConversionLoops>(stream).narrow(own + from, y + to, count);
  };
}

/// Bytes that a thread needs to hold a bf16 piece in fp32.
Index widened_bytes(const Group& g, DType dtype, Index times) {
  if (dtype == DType::f32) return 0;
  return times * (g.qkv_count() + g.y_count()) * static_cast<Index>(sizeof(float));
}
Index forward_bytes(const AttentionLoops& loops, const AttentionShape& s, DType dtype) {
  return whole_pages(loops.forward_bytes(s)) + widened_bytes({s, 0, 0}, dtype, 1);
}
Index backward_bytes(const AttentionLoops& loops, const AttentionShape& s, DType dtype) {
  return whole_pages(loops.backward_bytes(s)) + widened_bytes({s, 0, 0}, dtype, 2);
}

void forward_bf16(Stream& stream, const AttentionForward& p, const Group& g, std::byte* own) {
  const auto& attention = loops_of<AttentionLoops>(stream);
  float* qkv = reinterpret_cast<float*>(own + whole_pages(attention.forward_bytes(p.shape)));
  float* y = qkv + g.qkv_count();
  g.each_of_qkv(copy_in(stream, p.qkv, qkv));
  attention.forward({g.alone(), qkv, y, p.logsumexp + g.logsumexp_at(), nullptr}, 0, 0, own);
  g.each_of_y(copy_out(stream, y, p.y, Write::assign));
}

void backward_bf16(Stream& stream, const AttentionBackward& p, const Group& g, std::byte* own) {
  const auto& attention = loops_of<AttentionLoops>(stream);
  float* qkv = reinterpret_cast<float*>(own + whole_pages(attention.backward_bytes(p.shape)));
  float *y = qkv + g.qkv_count(), *dy = y + g.y_count(), *dqkv = dy + g.y_count();
  g.each_of_qkv(copy_in(stream, p.qkv, qkv));
  g.each_of_y(copy_in(stream, p.y, y));
  g.each_of_y(copy_in(stream, p.dy, dy));
  const float* logsumexp = p.logsumexp + g.logsumexp_at();
  attention.backward({g.alone(), qkv, y, logsumexp, dy, dqkv, Write::assign, nullptr}, 0, 0, own);
  g.each_of_qkv(copy_out(stream, dqkv, p.dqkv, p.write));
}

void check(const AttentionShape& s, DType dtype, AttentionChoice choice) {
  check_attention(s);
  check_storage(dtype, "attention");
  require(choice == AttentionChoice::automatic,
          "attention on CPUs has one kind of kernels, got the choice ", name(choice));
}

// run(batch, kv head, workspace of the thread) for every piece of work.
template <class F>
void for_heads(Stream& stream, const AttentionShape& s, void* workspace, Index bytes, F run) {
  require(workspace != nullptr, "attention needs its workspace");
  parallel_for(stream, s.batch * s.kv_heads, 1, [&](Index begin, Index end) {
    std::byte* own =
        static_cast<std::byte*>(workspace) + ThreadPool::current_thread() * whole_pages(bytes);
    for (Index i = begin; i < end; ++i) run(i / s.kv_heads, i % s.kv_heads, own);
  });
}

void forward(Stream& stream, const AttentionForward& p) {
  check(p.shape, p.dtype, p.choice);
  const auto& loops = loops_of<AttentionLoops>(stream);
  for_heads(stream, p.shape, p.workspace, forward_bytes(loops, p.shape, p.dtype),
            [&](Index batch, Index head, std::byte* own) {
              if (p.dtype == DType::bf16)
                forward_bf16(stream, p, {p.shape, batch, head}, own);
              else
                loops.forward(p, batch, head, own);
            });
}

void backward(Stream& stream, const AttentionBackward& p) {
  check(p.shape, p.dtype, p.choice);
  const auto& loops = loops_of<AttentionLoops>(stream);
  for_heads(stream, p.shape, p.workspace, backward_bytes(loops, p.shape, p.dtype),
            [&](Index batch, Index head, std::byte* own) {
              if (p.dtype == DType::bf16)
                backward_bf16(stream, p, {p.shape, batch, head}, own);
              else
                loops.backward(p, batch, head, own);
            });
}

}  // namespace

Index cpu_attention_forward_bytes(const DeviceTraits& cpu, const AttentionShape& s, DType dtype,
                                  AttentionChoice choice) {
  check(s, dtype, choice);
  return threads_used(cpu, s) * whole_pages(forward_bytes(loops_on(cpu), s, dtype));
}

Index cpu_attention_backward_bytes(const DeviceTraits& cpu, const AttentionShape& s, DType dtype,
                                   AttentionChoice choice) {
  check(s, dtype, choice);
  return threads_used(cpu, s) * whole_pages(backward_bytes(loops_on(cpu), s, dtype));
}

const AttentionKernels& cpu_table(const AttentionKernels*) {
  static constexpr AttentionKernels kernels = {forward, backward};
  return kernels;
}

}  // namespace trireme::kernels
