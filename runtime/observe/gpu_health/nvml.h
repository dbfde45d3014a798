// Nvml: what NVIDIA's driver says of the GPUs of this machine, through libnvidia-ml, which is
// loaded at run time. A function that the library lacks, or that the GPU does not support, leaves
// its value out.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trireme::observe {

/// The state of one GPU.
struct GpuReading {
  bool lost = false;  // the driver no longer reaches it; the rest is then missing
  std::optional<std::uint64_t> recovery_action;                 // 0: none is needed
  std::optional<std::uint64_t> corrected_ecc, uncorrected_ecc;  // since the driver was loaded
  std::optional<bool> remap_pending, remap_failed;
  std::optional<std::uint64_t> nvlink_errors;            // sum over all links and kinds
  std::optional<int> temperature, slowdown_temperature;  // degrees Celsius
};

/// What does not change while a job runs.
struct GpuFacts {
  std::string name, uuid;                          // uuid: as Device::identity of a GPU
  std::optional<int> pcie_width, most_pcie_width;  // lanes
  std::optional<int> nvlinks, nvlinks_up;
};

/// Why clocks are low, as far as it is a sign of trouble.
struct ClockLimits {
  bool thermal = false, power_brake = false;
};

struct GpuEvent {
  int gpu = 0;
  bool is_xid = false;  // otherwise an uncorrected ECC error
  std::uint64_t xid = 0;
};

/// One thread calls it.
class Nvml {
 public:
  /// The library that the variable TRIREME_NVML names, or libnvidia-ml.so.1. Null where it is
  /// missing or does not start; `reason` says why.
  static std::unique_ptr<Nvml> open(std::string& reason);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string driver_version() const;
  /// GPUs are 0 to gpus() - 1, in the order of the driver.
  int gpus() const;
  GpuFacts facts(int gpu) const;
  GpuReading read(int gpu) const;
  /// Bytes, of all processes.
  std::optional<std::uint64_t> used_memory(int gpu) const;
  ClockLimits clock_limits(int gpu) const;

  /// Events of this GPU are reported from now on. False where the driver cannot.
  bool watch(int gpu);
  /// Waits for the next event, at most so long.
  std::optional<GpuEvent> wait(int milliseconds);

 private:
  struct Library;
  explicit Nvml(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

}  // namespace trireme::observe
