// Devices, what is known of them, and their memory.
#include "trireme/core/device.h"

#include <array>
#include <chrono>

#include <fmt/format.h>
#include <sys/mman.h>

#include "trireme/core/buffer.h"
#include "trireme/core/device_traits.h"
#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme {
namespace {

class ClockTimer final : public Event {
 public:
  void record(Stream&) override { at_ = std::chrono::steady_clock::now(); }
  void make_wait(Stream&) override {}
  bool reached() const override { return true; }
  void synchronize() override {}
  double seconds_since(const Event& earlier) const override {
    const auto* timer = dynamic_cast<const ClockTimer*>(&earlier);
    require(timer != nullptr, "the event before this timer is no timer of the same device");
    return std::chrono::duration<double>(at_ - timer->at_).count();
  }

 private:
  std::chrono::steady_clock::time_point at_;
};

}  // namespace

double Event::seconds_since(const Event&) const {
  throw Error("an event that Device::make_timer did not make keeps no time");
}

std::unique_ptr<Event> Device::make_timer() { return std::make_unique<ClockTimer>(); }

Buffer allocate_host(Index bytes) {
  require(bytes >= 0, "cannot allocate ", bytes, " bytes");
  if (bytes == 0) return {};
  void* data = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require_call(data != MAP_FAILED, "cannot allocate ", bytes, " bytes of host memory");
  ::madvise(data, static_cast<std::size_t>(bytes),
            MADV_HUGEPAGE);  // a hint: failure changes nothing
  return Buffer(data, bytes, std::shared_ptr<void>(data, [bytes](void* p) {
                  ::munmap(p, static_cast<std::size_t>(bytes));
                }));
}

namespace {

struct KnownGpu {
  const char* model;
  int capability, multiprocessors;
};

/// Compute capabilities: developer.nvidia.com/cuda-gpus.
constexpr std::array<KnownGpu, 10> gpus = {{
    {"A100-40GB", 80, 108},  // NVIDIA A100 white paper: 54 TPCs of 2
    {"A100-80GB", 80, 108},  // the same chip
    {"L40S", 89, 142},       // NVIDIA L40S data sheet: 18,176 cores, 128 a multiprocessor (Ada)
    {"RTX-4090", 89, 128},   // NVIDIA Ada GPU architecture white paper, appendix A
    {"H100-PCIe", 90, 114},  // NVIDIA H100 white paper
    {"H100-SXM", 90, 132},   // NVIDIA H100 white paper
    {"H200", 90, 132},       // the chip of the H100-SXM with other memory
    {"B200", 100, 148},      // Chips and Cheese, "Nvidia's B200", 2025: 74 on each of two dies
    {"GB200", 100, 148},     // the chip of the B200 beside a Grace
    {"RTX-5090", 120, 170}   // NVIDIA RTX Blackwell GPU architecture white paper, appendix A
}};

/// CUDA C++ Programming Guide, technical specifications per compute capability: maximum amount of
/// shared memory per thread block. It is 1 KiB less than a multiprocessor has, which is 164, 100
/// (8.9 and 12.0) and 228 KiB (cuda_occupancy.h).
Index shared_bytes_of(int capability) {
  switch (capability) {
    case 80:
      return Index{163} << 10;
    case 89:
    case 120:
      return Index{99} << 10;
    default:  // 90, 100
      return Index{227} << 10;
  }
}

}  // namespace

const char* name(DeviceKind kind) { return kind == DeviceKind::cpu ? "cpu" : "cuda"; }

const char* name(InstructionSet set) {
  switch (set) {
    case InstructionSet::best:
      return "best";
    case InstructionSet::portable:
      return "portable";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
  }
  return "";
}

std::string DeviceTraits::describe() const {
  if (kind == DeviceKind::cuda)
    return fmt::format(
        "GPU of compute capability {}.{}, {} multiprocessors, {} bytes of shared memory a block",
        capability / 10, capability % 10, multiprocessors, shared_bytes);
  return fmt::format("CPU, {}{}, {} thread{}", name(instruction_set),
                     native_bf16 ? " with bf16" : "", threads, threads == 1 ? "" : "s");
}

DeviceTraits gpu_traits(int capability, int multiprocessors, Index shared_bytes) {
  require(capability > 0, "a GPU has a compute capability such as 90 for 9.0, got ", capability);
  require(multiprocessors > 0, "a GPU has at least one multiprocessor, got ", multiprocessors);
  require(shared_bytes > 0, "a block of a GPU has shared memory, got ", shared_bytes, " bytes");
  DeviceTraits traits;
  traits.kind = DeviceKind::cuda;
  traits.native_bf16 = true;
  traits.capability = capability;
  traits.multiprocessors = multiprocessors;
  traits.shared_bytes = shared_bytes;
  return traits;
}

DeviceTraits gpu_traits(std::string_view model) {
  for (const KnownGpu& gpu : gpus)
    if (gpu.model == model)
      return gpu_traits(gpu.capability, gpu.multiprocessors, shared_bytes_of(gpu.capability));
  std::string all;
  for (const std::string& known : known_gpus()) all += known + ", ";
  throw Error(fmt::format("the GPU '{}' is not known: expected {}or its numbers", model, all));
}

std::vector<std::string> known_gpus() {
  std::vector<std::string> models;
  for (const KnownGpu& gpu : gpus) models.emplace_back(gpu.model);
  return models;
}

}  // namespace trireme
