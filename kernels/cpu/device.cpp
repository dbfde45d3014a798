// The CPU device: memory of the host, one pool of threads, streams that run at once.
#include "trireme/kernels/device.h"

#include <cstring>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/strided.h"
#include "runtime/core/process/this_machine.h"

namespace trireme {

using namespace kernels;

namespace {

constexpr Index bytes_per_thread = 1 << 20;  // below this a second thread does not pay

// The line of a /proc file that begins with `key`, without key and separators; empty when there is
// none.
std::string proc_value(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) {
      const std::size_t start = line.find_first_not_of(" \t:", key.size());
      return start == std::string::npos ? std::string() : line.substr(start);
    }
  return {};
}

class CpuEvent final : public Event {  // all work is done when a call returns
 public:
  void record(Stream&) override {}
  void make_wait(Stream&) override {}
  bool reached() const override { return true; }
  void synchronize() override {}
};

}  // namespace

CpuDevice::CpuDevice(const DeviceTraits& traits)
    : Device(traits),
      pool_(traits.threads),
      products_(std::make_unique<OnednnProducts>(traits.threads)),
      kernels_(
          make_kernels([]<class Family>() -> const Family& { return cpu_kernels<Family>(); })) {}

CpuDevice::~CpuDevice() = default;

std::string CpuDevice::describe() const {
  const std::string model = proc_value("/proc/cpuinfo", "model name");
  return fmt::format("CPU {}, {}, {} thread{}, {:.1f} GB free",
                     model.empty() ? "of unknown model" : model, name(traits().instruction_set),
                     pool_.threads(), pool_.threads() == 1 ? "" : "s",
                     static_cast<double>(free_bytes()) * 1e-9);
}

Buffer CpuDevice::allocate(Index bytes) {
  try {
    return allocate_host(bytes);
  } catch (const Error& e) {
    throw Error(fmt::format("{} ({} bytes are free)", e.what(), free_bytes()));
  }
}

Index CpuDevice::free_bytes() const { return free_memory(); }

std::unique_ptr<Stream> CpuDevice::make_stream() { return std::make_unique<CpuStream>(*this); }
std::unique_ptr<Event> CpuDevice::make_event() { return std::make_unique<CpuEvent>(); }

DeviceTraits cpu_traits(const CpuOptions& options) {
  require(options.threads >= 1, "a CPU device has at least one thread, got ", options.threads);
  limit_onednn(instruction_set_of_environment());
  DeviceTraits traits;
  traits.kind = DeviceKind::cpu;
  traits.threads = options.threads;
  traits.instruction_set = resolve(options.instruction_set);
  traits.native_bf16 = traits.instruction_set == InstructionSet::avx512 && onednn_has_bf16();
  return traits;
}

std::unique_ptr<Device> open_cpu(const CpuOptions& options) {
  return std::make_unique<CpuDevice>(cpu_traits(options));
}

void CpuStream::copy(void* to, const void* from, Index bytes) {
  if (to == from) return;
  pool_.parallel_for(bytes, bytes_per_thread, [=](Index begin, Index end) {
    std::memmove(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                 static_cast<std::size_t>(end - begin));
  });
}

void CpuStream::zero(void* data, Index bytes) {
  pool_.parallel_for(bytes, bytes_per_thread, [=](Index begin, Index end) {
    std::memset(static_cast<std::byte*>(data) + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

void CpuStream::copy(const Tensor& to, const Tensor& from) {
  copy_strided(*this, to, from, Write::assign);
}

void CpuStream::add(const Tensor& to, const Tensor& from) {
  copy_strided(*this, to, from, Write::add);
}

}  // namespace trireme
