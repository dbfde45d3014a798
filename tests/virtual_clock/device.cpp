#include "tests/virtual_clock/device.h"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>

#include "runtime/core/require_call.h"
#include "tests/virtual_clock/kernels.h"

namespace trireme::virtual_clock {
namespace {

class VirtualEvent final : public Event {
 public:
  explicit VirtualEvent(Clock& clock) : clock_(clock) {}
  void record(Stream&) override { time_ = clock_.device(); }
  void make_wait(Stream&) override { clock_.device_waits(time_); }
  bool reached() const override { return true; }
  void synchronize() override { clock_.host_waits(time_); }

 private:
  Clock& clock_;
  double time_ = 0;
};

}  // namespace

VirtualDevice::VirtualDevice(const cost::Profile& profile)
    : Device(profile.device), profile_(profile), clock_(profile.queues) {}

const Kernels& VirtualDevice::kernels() const { return virtual_kernels(); }

Buffer VirtualDevice::allocate(Index bytes) {
  if (bytes == 0) return {};
  const auto size = static_cast<std::size_t>(bytes);
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require_call(data != MAP_FAILED, "no address space of ", bytes, " bytes");
  const auto* begin = static_cast<const std::byte*>(data);
  ranges_.emplace_back(begin, begin + bytes);
  return {data, bytes, std::shared_ptr<void>(data, [size](void* p) { munmap(p, size); })};
}

bool VirtualDevice::owns(const void* data) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [data](const auto& range) {
    return range.first <= data && data < range.second;
  });
}

std::unique_ptr<Stream> VirtualDevice::make_stream() {
  return std::make_unique<VirtualStream>(*this);
}
std::unique_ptr<Event> VirtualDevice::make_event() {
  return std::make_unique<VirtualEvent>(clock_);
}

VirtualStream::VirtualStream(VirtualDevice& device) : Stream(device), device_(device) {}

void VirtualStream::begin_step(const cost::OpTime& time) {
  clock().run(time.host, time.device() - time.tensor_traffic);
  in_step_ = true;
}

void VirtualStream::run(double bytes) {
  if (in_step_) return;
  const cost::Profile& profile = device_.profile();
  clock().run(profile.op_seconds, bytes / profile.bytes_per_s);
}

void VirtualStream::launch() {
  if (!in_step_ && clock().queues()) clock().run(device_.profile().op_seconds, 0);
}

/// Inside the device nothing is copied. Lists and results, which are small, really are: hosts read
/// them.
void VirtualStream::copy(void* to, const void* from, Index bytes) {
  if (in_step_ || bytes == 0) return;
  if (device_.owns(to) && device_.owns(from)) return run(2 * static_cast<double>(bytes));
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
  launch();
}

ThreadPool& VirtualStream::pool() {
  throw Error("a virtual device has no threads: this op has no kernel in the tables");
}

}  // namespace trireme::virtual_clock
