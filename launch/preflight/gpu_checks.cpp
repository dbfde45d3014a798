#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trireme/core/error.h"
#include "trireme/kernels/device.h"

#include "kernels/cuda.h"
#include "launch/preflight/device_checks.h"
#include "launch/preflight/node_checks.h"
#include "runtime/comm/nccl.h"
#include "runtime/observe/gpu_health/health_watch.h"

namespace trireme::preflight {
namespace {

void driver_facts(Node& node, const observe::Nvml& nvml) {
  node.facts["driver"] = nvml.driver_version();
  for (int gpu = 0; gpu < nvml.gpus(); ++gpu) {
    for (const observe::HealthFinding& finding : observe::HealthWatch(gpu).reading(nvml.read(gpu)))
      (finding.action == observe::HealthAction::fatal ? node.faults : node.warnings)
          .push_back(observe::text_of(finding));
    const observe::GpuFacts facts = nvml.facts(gpu);
    if (facts.nvlinks && facts.nvlinks_up.value_or(0) < *facts.nvlinks)
      node.faults.push_back(fmt::format("GPU {}: {} of {} NVLinks are up", gpu,
                                        facts.nvlinks_up.value_or(0), *facts.nvlinks));
    if (facts.pcie_width && facts.most_pcie_width && *facts.pcie_width < *facts.most_pcie_width)
      node.warnings.push_back(fmt::format("GPU {}: PCIe has {} lanes of {}", gpu, *facts.pcie_width,
                                          *facts.most_pcie_width));
  }
}

/// 64 MiB there and back; the long preflight tests most of the memory (device_checks.h).
void test_some_memory(Device& device) {
  constexpr std::size_t words = (std::size_t{64} << 20) / sizeof(std::uint64_t);
  constexpr auto bytes = static_cast<Index>(words * sizeof(std::uint64_t));
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
  const std::unique_ptr<Stream> stream = device.make_stream();
  const Buffer memory = device.allocate(bytes);
  std::vector<std::uint64_t> sent(words), back(words);
  for (std::size_t i = 0; i < words; ++i) sent[i] = i * odd;
  stream->copy(memory.data(), sent.data(), bytes);
  stream->copy(back.data(), memory.data(), bytes);
  stream->synchronize();
  require(sent == back, "64 MiB of memory were read back with other bits");
}

}  // namespace

std::string cuda_module() {
  const char* path = std::getenv("TRIREME_CUDA_MODULE");
  return path == nullptr ? "" : path;
}

std::string model_of(const Device& gpu) {
  std::string text = gpu.describe();
  if (const std::string index = str("GPU ", gpu.index(), ' '); text.starts_with(index))
    text.erase(0, index.size());
  return text.substr(0, text.rfind(", "));  // the rest is free memory
}

void check_gpus(Node& node) {
  std::string reason;
  const std::vector<std::string> gpus = find_gpus({0, cuda_module()}, reason);
  node.facts["gpus"] = std::to_string(gpus.size());
  if (gpus.empty()) {
    node.facts["no GPU"] = reason;
    node.kind += ", no GPU";
  }
  if (const auto nvml = observe::Nvml::open(reason)) driver_facts(node, *nvml);
  for (int gpu = 0; gpu < std::ssize(gpus); ++gpu) {
    const std::unique_ptr<Device> device = open_cuda({gpu, cuda_module()});
    if (gpu == 0) node.kind += fmt::format(", {} x {}", gpus.size(), model_of(*device));
    try {
      test_some_memory(*device);
    } catch (const Error& error) {
      node.faults.push_back(fmt::format("GPU {}: {}", gpu, error.what()));
    }
  }
}

void measure_gpus(Node& node) {
  std::string none;
  const auto gpus = static_cast<int>(find_gpus({0, cuda_module()}, none).size());
  double slowest = std::numeric_limits<double>::infinity();
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const std::unique_ptr<Device> device = open_cuda({gpu, cuda_module()});
    const std::unique_ptr<Stream> stream = device->make_stream();
    constexpr double seconds = 0.1;
    const Index size = lasting_product(*stream, DType::bf16);
    slowest = std::min(slowest, run_products(*stream, size, DType::bf16, seconds).gflops);
  }
  if (gpus > 0) node.figures["gpu_gemm_gflops"] = slowest;
}

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
