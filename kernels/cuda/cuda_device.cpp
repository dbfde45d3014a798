// The CUDA device: memory, streams and events of one GPU. Every call is checked; nothing waits
// unless its name says so.
#include "kernels/cuda/cuda_device.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "kernels/cuda/blas.h"
#include "kernels/cuda/strided.h"
#include "kernels/gpu_sizes.h"
#include "runtime/core/poll.h"

namespace trireme::kernels {
namespace {

class CudaEvent final : public Event {
 public:
  CudaEvent(const CudaDevice& device, unsigned flags) : device_(device) {
    check(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreate");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record(Stream& stream) override {
    check(cudaEventRecord(event_, cuda_stream_of(stream)), "cudaEventRecord");
  }
  void make_wait(Stream& stream) override {
    check(cudaStreamWaitEvent(cuda_stream_of(stream), event_, 0), "cudaStreamWaitEvent");
  }
  bool reached() const override {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) return false;
    check(state, "cudaEventQuery");
    return true;
  }
  void synchronize() override {
    device_.wait_until_ready([&] { return cudaEventQuery(event_); }, "cudaEventQuery");
  }
  double seconds_since(const Event& earlier) const override {
    float ms = 0;  // CUDA refuses events without times
    check(cudaEventElapsedTime(&ms, static_cast<const CudaEvent&>(earlier).event_, event_),
          "cudaEventElapsedTime");
    return static_cast<double>(ms) * 1e-3;
  }

 private:
  const CudaDevice& device_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace

cudaDeviceProp properties_of(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return properties;
}

std::string identity_of(int index) {
  std::string text = "GPU";
  const cudaUUID_t uuid = properties_of(index).uuid;
  for (int i = 0; i < 16; ++i)
    text += fmt::format("{}{:02x}", i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "",
                        static_cast<unsigned char>(uuid.bytes[i]));
  return text;
}

int capability_of(int index) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index),
        "cudaDeviceGetAttribute");
  return 10 * major + minor;
}

namespace {

DeviceTraits traits_of(int index) {
  int multiprocessors = 0, shared_bytes = 0;
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, index),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, index),
        "cudaDeviceGetAttribute");
  return gpu_traits(capability_of(index), multiprocessors, shared_bytes);
}

}  // namespace

CudaDevice::CudaDevice(int index, const std::string& gemm_cache)
    : Device(traits_of(index)),
      index_(index),
      kernels_(
          make_kernels([]<class Family>() -> const Family& { return cuda_kernels<Family>(); })) {
  check(cudaSetDevice(index), "cudaSetDevice");
  blas_ = std::make_unique<Blas>(properties_of(index).name, gemm_cache);
}

CudaDevice::~CudaDevice() = default;

std::string CudaDevice::describe() const {
  const cudaDeviceProp properties = properties_of(index_);
  return fmt::format("GPU {} {}, compute capability {}.{}, {:.1f} GB free", index_,
                     static_cast<const char*>(properties.name), properties.major, properties.minor,
                     static_cast<double>(free_bytes()) * 1e-9);
}

Buffer CudaDevice::allocate(Index bytes) {
  require(bytes >= 0, "cannot allocate ", bytes, " bytes");
  if (bytes == 0) return {};
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<std::size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it is reported here, not by the next call
    throw Error(str("GPU ", index_, ": ", bytes, " bytes asked for, ", free_bytes(), " free"));
  }
  check(error, "cudaMalloc");
  std::shared_ptr<void> owned = owner({data, cudaFree});
  check(cudaMemsetAsync(data, 0, static_cast<std::size_t>(bytes), nullptr), "cudaMemset");
  check(cudaStreamSynchronize(nullptr), "cudaMemset");
  return {data, bytes, std::move(owned)};
}

Buffer CudaDevice::allocate_pinned(Index bytes) {
  require(bytes >= 0, "cannot allocate ", bytes, " bytes");
  if (bytes == 0) return {};
  void* data = nullptr;
  check(cudaHostAlloc(&data, static_cast<std::size_t>(bytes), cudaHostAllocDefault),
        str("cudaHostAlloc of ", bytes, " bytes").c_str());
  std::memset(data, 0, static_cast<std::size_t>(bytes));
  return {data, bytes, owner({data, cudaFreeHost})};
}

std::shared_ptr<void> CudaDevice::owner(Memory memory) const {
  return {memory.data, [memory, waiting = waiting_](void*) { waiting->let_go(memory); }};
}

void CudaDevice::Waiting::let_go(Memory memory) {
  try {
    if (meanwhile) meanwhile();
  } catch (const std::exception&) {
    kept.push_back(memory);  // the next wait reports the error, too
    return;
  }
  free_kept();
  memory.free(memory.data);
}

void CudaDevice::Waiting::free_kept() {
  for (const Memory& memory : std::exchange(kept, {})) memory.free(memory.data);
}

Index CudaDevice::free_bytes() const {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<Index>(free);
}

std::unique_ptr<Stream> CudaDevice::make_stream() { return std::make_unique<CudaStream>(*this); }
std::unique_ptr<Event> CudaDevice::make_event() {
  return std::make_unique<CudaEvent>(*this, cudaEventDisableTiming);
}
std::unique_ptr<Event> CudaDevice::make_timer() {
  return std::make_unique<CudaEvent>(*this, cudaEventDefault);
}

void CudaDevice::wait_until_ready(FunctionRef<cudaError_t()> query, const char* what) const {
  cudaError_t state = cudaSuccess;
  poll([&] {
    state = query();
    if (state != cudaErrorNotReady) return true;
    if (waiting_->meanwhile) waiting_->meanwhile();
    return false;
  });
  if (state != cudaSuccess)  // the rest of the device's life
    check(state,
          str(what, " (from an operation queued earlier; set CUDA_LAUNCH_BLOCKING=1 to find it)")
              .c_str());
}

CudaStream::CudaStream(CudaDevice& device)
    : Stream(device),
      pace_(device),
      partial_sums_(device.allocate(most_partial_sums * static_cast<Index>(sizeof(double)))) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

void* CudaStream::gemm_workspace() {
  if (gemm_workspace_.data() == nullptr) gemm_workspace_ = device().allocate(blas_workspace_bytes);
  return gemm_workspace_.data();
}

CudaStream::~CudaStream() { cudaStreamDestroy(stream_); }

void CudaStream::copy(void* to, const void* from, Index bytes) {
  if (bytes == 0) return;
  check(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, cuda_stream()),
      "cudaMemcpyAsync");
}

void CudaStream::zero(void* data, Index bytes) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(data, 0, static_cast<std::size_t>(bytes), cuda_stream()),
        "cudaMemsetAsync");
}

void CudaStream::copy(const Tensor& to, const Tensor& from) {
  cuda_copy_strided(*this, to, from, Write::assign);
}

void CudaStream::add(const Tensor& to, const Tensor& from) {
  cuda_copy_strided(*this, to, from, Write::add);
}

void CudaStream::synchronize() {
  cuda().wait_until_ready([&] { return cudaStreamQuery(stream_); }, "cudaStreamQuery");
}

ThreadPool& CudaStream::pool() {
  throw Error("a CUDA stream has no threads: host kernels run on a CPU device only");
}

Pace::Pace(const CudaDevice& device) : device_(device) {
  for (cudaEvent_t& mark : marks_)
    check(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming), "cudaEventCreate");
}

Pace::~Pace() {
  for (const cudaEvent_t mark : marks_) cudaEventDestroy(mark);
}

void Pace::one_more(cudaStream_t stream) {
  if (++calls_ % calls_a_mark != 0) return;
  const cudaEvent_t mark = marks_[static_cast<std::size_t>(calls_ / calls_a_mark % marks)];
  device_.wait_until_ready([&] { return cudaEventQuery(mark); }, "cudaEventQuery");
  check(cudaEventRecord(mark, stream), "cudaEventRecord");
}

}  // namespace trireme::kernels
