// CudaDevice, CudaStream and CudaEvent: the core interfaces on the CUDA runtime. Part of the CUDA
// module; the rest of trireme does not see it.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "trireme/core/device.h"
#include "trireme/core/dtype.h"
#include "trireme/core/error.h"
#include "trireme/kernels/kernels.h"

namespace trireme::kernels {

/// Throws: Error with CUDA's name and text of the error, and `what` failed.
inline void check(cudaError_t error, const char* what,
                  std::source_location where = std::source_location::current()) {
  if (error != cudaSuccess) [[unlikely]]
    throw Error(str(what, ": ", cudaGetErrorName(error), ": ", cudaGetErrorString(error)), where);
}

cudaDeviceProp properties_of(int index);
/// Device::identity: "GPU-" and the UUID, as nvidia-smi -L prints it.
std::string identity_of(int index);
/// 80 for compute capability 8.0.
int capability_of(int index);

class Blas;

/// The GPU's functions of a family, such as RotaryKernels. The family's source beside this header
/// defines cuda_table(const RotaryKernels*), whose argument only selects the overload. An ordinary
/// function, declared here for each family that is asked for: a specialisation of this template
/// would have to be declared before its use.
template <class Family>
const Family& cuda_kernels() {
  const Family& cuda_table(const Family*);
  return cuda_table(nullptr);
}

class CudaDevice final : public Device {
 public:
  /// `index`: of the GPU, among those that this process sees. `gemm_cache`: directory of choices
  /// for products, may be empty. Throws: Error when it cannot be used.
  explicit CudaDevice(int index, const std::string& gemm_cache = {});
  ~CudaDevice() override;

  int index() const override { return index_; }
  std::string identity() const override { return identity_of(index_); }
  std::string describe() const override;
  const Kernels& kernels() const override { return kernels_; }
  Buffer allocate(Index bytes) override;
  Buffer allocate_pinned(Index bytes) override;
  Index free_bytes() const override;
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Event> make_event() override;
  std::unique_ptr<Event> make_timer() override;
  void while_waiting(const std::function<void()>& f) override { waiting_->meanwhile = f; }
  /// Blocks the host until `query()`, a CUDA call, no longer reports pending work. Polls like poll
  /// (runtime/core/poll.h).
  void wait_until_ready(FunctionRef<cudaError_t()> query, const char* what) const;

  Blas& blas() { return *blas_; }

 private:
  struct Memory {
    void* data;
    cudaError_t (*free)(
        void*);  // cudaFree or its like, which waits for all that the device has been given
  };
  /// Shared with the memory that this device has made, which may outlive it.
  struct Waiting {
    std::function<void()> meanwhile;
    std::vector<Memory> kept;  // that could not be freed when its owner let it go
    ~Waiting() { free_kept(); }
    void let_go(Memory memory);
    void free_kept();
  };
  std::shared_ptr<void> owner(Memory memory) const;

  int index_;
  std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
  std::unique_ptr<Blas> blas_;
  const Kernels kernels_;
};

/// Pace: limits how far the host runs ahead of a stream. A stream holds about a thousand
/// operations. The next launch blocks inside the driver, where communication cannot be polled. The
/// host therefore waits long before that, in a wait that polls.
///
/// It counts calls, of which each puts something on one stream: a kernel, or the two or three of a
/// product or a collective. At most `marks + 1` times `calls_a_mark` are outstanding: some 700
/// operations at worst; at least `marks - 1` times as many are while the host waits.
class Pace {
 public:
  static constexpr Index calls_a_mark = 64, marks = 4;

  explicit Pace(const CudaDevice& device);
  ~Pace();
  Pace(const Pace&) = delete;
  Pace& operator=(const Pace&) = delete;
  /// Before a call that puts something on `stream`, always the same one. Throws: Error, from the
  /// wait.
  void one_more(cudaStream_t stream);
  Index calls() const { return calls_; }

 private:
  const CudaDevice& device_;
  std::array<cudaEvent_t, marks> marks_{};
  Index calls_ = 0;
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(CudaDevice& device);
  ~CudaStream() override;

  void copy(void* to, const void* from, Index bytes) override;
  void zero(void* data, Index bytes) override;
  void copy(const Tensor& to, const Tensor& from) override;
  void add(const Tensor& to, const Tensor& from) override;
  bool wait_and_check_finite(const Tensor& x) override;
  void synchronize() override;
  ThreadPool& pool() override;
  Index operations() const override { return pace_.calls(); }
  void* native() const override { return stream_; }
  /// Returns the stream for one call that queues work on it: may wait for earlier work (Pace).
  cudaStream_t cuda_stream() {
    pace_.one_more(stream_);
    return stream_;
  }

  /// For the partial results of a reduction, between two kernels of one call. Calls can share it
  /// because the kernels of a stream run one after the other.
  static constexpr Index most_partial_sums = 1024;
  double* partial_sums() const { return reinterpret_cast<double*>(partial_sums_.data()); }

  /// Returns blas_workspace_bytes that belong to this stream alone. Only streams that multiply have
  /// them, from the first product they prepare or run.
  void* gemm_workspace();
  CudaDevice& cuda() const { return static_cast<CudaDevice&>(device()); }

 private:
  cudaStream_t stream_ = nullptr;
  Pace pace_;
  Buffer gemm_workspace_;
  Buffer partial_sums_;
};

/// CudaStream::cuda_stream of a stream that a CUDA device made. Kernels of the CUDA table are only
/// ever called with one.
inline cudaStream_t cuda_stream_of(Stream& stream) {
  return static_cast<CudaStream&>(stream).cuda_stream();
}
inline int multiprocessors_of(Stream& stream) { return stream.device().traits().multiprocessors; }
inline Index shared_bytes_of(Stream& stream) { return stream.device().traits().shared_bytes; }

}  // namespace trireme::kernels
