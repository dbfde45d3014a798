#include "launch/preflight/gpu_load.h"

#include <fmt/format.h>

#include "trireme/kernels/device.h"

#include "launch/preflight/device_memory.h"
#include "launch/preflight/gpu_checks.h"
#include "launch/preflight/steady_products.h"
#include "launch/preflight/training_steps.h"
#include "runtime/comm/nccl.h"

namespace trireme::preflight {
namespace {

constexpr std::array<DType, 2> types = {DType::f32, DType::bf16};

}  // namespace

ProductSizes agree_on_sizes(const Host& host, Stream& gpu) {
  ProductSizes sizes;
  for (std::size_t i = 0; i < types.size(); ++i) sizes[i] = lasting_product(gpu, types[i]);
  host.all_reduce({sizes.data(), std::ssize(sizes), DType::i64}, Reduction::min);
  return sizes;
}

void measure_gpu(Node& node, Stream& gpu, const Checks& checks, const ProductSizes& sizes) {
  guarded(node, checks, "products of GPUs", [&] {
    const double seconds = checks.steady_s / types.size();
    const SteadyProducts f32 = run_products(gpu, sizes[0], DType::f32, seconds),
                         bf16 = run_products(gpu, sizes[1], DType::bf16, seconds);
    node.facts["product"] = f32.bits;
    node.facts["product bf16"] = bf16.bits;
    node.figures["gpu_f32_gflops"] = f32.gflops;
    node.figures["gpu_bf16_gflops"] = bf16.gflops;
  });
  guarded(node, checks, "memory rate of GPUs",
          [&] { node.figures["gpu_copy_gb_per_s"] = measure_copy_rate(gpu) / 1e9; });
}

Node check_gpu(const std::string& name, Stream& gpu, const Checks& checks,
               const ProductSizes& sizes) {
  Node node;
  node.host = name;
  node.kind = model_of(gpu.device());
  guarded(node, checks, "memory of GPUs", [&] {
    constexpr double longest_s = 20, mib = 1 << 20;
    const MemoryTested tested = test_memory(gpu, longest_s);
    node.facts["memory tested"] =
        fmt::format("{:.0f} of {:.0f} MiB", static_cast<double>(tested.bytes) / mib,
                    static_cast<double>(tested.free_bytes) / mib);
  });
  measure_gpu(node, gpu, checks, sizes);
  guarded(node, checks, "training steps of GPUs", [&] {
    const std::unique_ptr<Mesh> alone = make_self_mesh();
    const std::unique_ptr<Device> cpu = open_cpu();
    const std::unique_ptr<Stream> stream = cpu->make_stream();
    NcclOptions options;
    options.module = cuda_module();
    const std::unique_ptr<Mesh> mesh = open_nccl_mesh(*alone, gpu.device(), options);
    node.facts["training"] = bits_of_training(*mesh, gpu, {*alone, *stream});
  });
  return node;
}

}  // namespace trireme::preflight
