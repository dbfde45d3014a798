// CpuDevice and CpuStream: everything runs at once, on the caller and the device's threads; and
// what the launchers of the CPU kernels share.
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "trireme/kernels/kernels.h"

#include "kernels/cpu/loops.h"

namespace trireme::kernels {

/// The CPU's functions of a family, such as RotaryKernels. The family's .cpp beside this header
/// defines cpu_table(const RotaryKernels*), whose argument only selects the overload. An ordinary
/// function, declared here for each family that is asked for: a specialisation of this template
/// would have to be declared before its use.
template <class Family>
const Family& cpu_kernels() {
  const Family& cpu_table(const Family*);
  return cpu_table(nullptr);
}

class OnednnProducts;

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const DeviceTraits& traits);
  ~CpuDevice() override;

  std::string describe() const override;
  const Kernels& kernels() const override { return kernels_; }
  Buffer allocate(Index bytes) override;
  Index free_bytes() const override;
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Event> make_event() override;

  ThreadPool& pool() { return pool_; }
  OnednnProducts& products() { return *products_; }

 private:
  ThreadPool pool_;
  std::unique_ptr<OnednnProducts> products_;
  const Kernels kernels_;
};

class CpuStream final : public Stream {
 public:
  explicit CpuStream(CpuDevice& device)
      : Stream(device), pool_(device.pool()), set_(device.traits().instruction_set) {}

  InstructionSet instruction_set() const { return set_; }

  void copy(void* to, const void* from, Index bytes) override;
  void zero(void* data, Index bytes) override;
  void copy(const Tensor& to, const Tensor& from) override;
  void add(const Tensor& to, const Tensor& from) override;
  bool wait_and_check_finite(const Tensor& x) override;
  void synchronize() override {}
  ThreadPool& pool() override { return pool_; }

 private:
  ThreadPool& pool_;
  InstructionSet set_;
};

/// The table, such as RotaryLoops, for a stream that was made by a CPU device. Kernels of the CPU
/// are only ever called with one.
template <class Loops>
const Loops& loops_of(Stream& stream) {
  return loops_for<Loops>(static_cast<CpuStream&>(stream).instruction_set());
}

/// Elements that are worth a thread of their own in a memory-bound loop, and where each takes some
/// twenty operations or a call of the C library.
inline constexpr Index grain_elements = 16384, grain_calls = 4096;
/// Returns the grain in rows of `channels` elements.
inline Index grain_rows(Index channels) {
  return channels < grain_elements ? grain_elements / (channels < 1 ? 1 : channels) : 1;
}

/// Sum of part(begin, end) over a fixed number of parts of [0, count), in order: the result does
/// not depend on the number of threads.
template <class Part>
double sum_in_parts(Stream& stream, Index count, Part part) {
  constexpr Index parts = 64;
  std::array<double, parts> sums{};
  parallel_for(
      stream, parts, std::max<Index>(1, parts * grain_elements / std::max<Index>(1, count)),
      [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i)
          sums[static_cast<std::size_t>(i)] = part(count * i / parts, count * (i + 1) / parts);
      });
  double total = 0;
  for (double s : sums) total += s;
  return total;
}

}  // namespace trireme::kernels
