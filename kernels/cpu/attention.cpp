// Launchers of attention: every (batch, kv head) is one piece of work, each thread has a workspace
// of its own.
#include "kernels/cpu/cpu_device.h"
#include "kernels/shape_checks.h"

namespace trireme {

namespace {

Index bytes_per_thread(Index bytes) { return (bytes + 4095) / 4096 * 4096; }

Index threads_used(CpuDevice& device, const AttentionShape& s) {
  return std::clamp<Index>(s.batch * s.kv_heads, 1, device.pool().threads());
}

Index forward_workspace_bytes(Device& device, const AttentionShape& shape) {
  check_attention(shape);
  CpuDevice& cpu = static_cast<CpuDevice&>(device);
  return threads_used(cpu, shape) * bytes_per_thread(cpu.loops().attention.forward_bytes(shape));
}

Index backward_workspace_bytes(Device& device, const AttentionShape& shape) {
  check_attention(shape);
  CpuDevice& cpu = static_cast<CpuDevice&>(device);
  return threads_used(cpu, shape) * bytes_per_thread(cpu.loops().attention.backward_bytes(shape));
}

// run(batch, kv head, workspace of the thread) for every piece of work.
template <class F>
void for_heads(Stream& stream, const AttentionShape& s, void* workspace, Index bytes, F run) {
  require(workspace != nullptr, "attention needs its workspace");
  parallel_for(stream, s.batch * s.kv_heads, 1, [&](Index begin, Index end) {
    std::byte* own =
        static_cast<std::byte*>(workspace) + ThreadPool::current_thread() * bytes_per_thread(bytes);
    for (Index i = begin; i < end; ++i) run(i / s.kv_heads, i % s.kv_heads, own);
  });
}

void forward(Stream& stream, const AttentionForward& p) {
  check_attention(p.shape);
  const AttentionLoops& loops = loops_of(stream).attention;
  for_heads(stream, p.shape, p.workspace, loops.forward_bytes(p.shape),
            [&](Index batch, Index head, std::byte* own) { loops.forward(p, batch, head, own); });
}

void backward(Stream& stream, const AttentionBackward& p) {
  check_attention(p.shape);
  const AttentionLoops& loops = loops_of(stream).attention;
  for_heads(stream, p.shape, p.workspace, loops.backward_bytes(p.shape),
            [&](Index batch, Index head, std::byte* own) { loops.backward(p, batch, head, own); });
}

}  // namespace

const AttentionKernels cpu_attention_kernels = {forward, backward, forward_workspace_bytes,
                                                backward_workspace_bytes};

}  // namespace trireme
