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

namespace trireme::observe::nvml {

// What is used of NVML's interface (nvml.h of CUDA 13), so that no header of NVIDIA is needed to
// build. Values are those of nvml.h; nvmlDevice_t and nvmlEventSet_t are pointers there too.

using Return = int;
using Device = void*;
using EventSet = void*;

constexpr Return success = 0, gpu_is_lost = 15;

constexpr unsigned temperature_gpu = 0;             // nvmlTemperatureSensors_t
constexpr unsigned threshold_slowdown = 1;          // nvmlTemperatureThresholds_t
constexpr unsigned corrected = 0, uncorrected = 1;  // nvmlMemoryErrorType_t
constexpr unsigned volatile_counter = 0;  // nvmlEccCounterType_t: since the driver was loaded
constexpr unsigned nvlink_counters = 5;   // nvmlNvLinkErrorCounter_t
constexpr unsigned most_nvlinks = 36;
constexpr std::uint64_t event_double_bit_ecc = 0x2, event_xid = 0x8;
constexpr unsigned field_recovery_action = 230;  // NVML_FI_DEV_GET_GPU_RECOVERY_ACTION

// nvmlClocksEventReason...
constexpr std::uint64_t reason_sw_thermal = 0x20, reason_hw_thermal = 0x40,
                        reason_power_brake = 0x80;

struct EventData {
  Device device;
  unsigned long long type, data;  // data: the Xid
  unsigned gpu_instance, compute_instance;
};

union Value {
  double d;
  unsigned u;
  unsigned long ul;
  unsigned long long ull;
  long long sll;
};
struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency_us;
  unsigned value_type;
  Return status;
  Value value;
};

// Functions by their names in the library.
using Init = Return (*)();                               // nvmlInit_v2, nvmlShutdown
using GetText = Return (*)(char* text, unsigned bytes);  // driver version
using GetCount = Return (*)(unsigned* count);
using GetHandle = Return (*)(unsigned index, Device* device);
using GetDeviceText = Return (*)(Device device, char* text, unsigned bytes);
using GetNumber = Return (*)(Device device, unsigned* number);
struct Memory {
  unsigned long long total, free, used;  // bytes
};
using GetMemory = Return (*)(Device device, Memory* memory);
using GetReasons = Return (*)(Device device, unsigned long long* reasons);
using GetTemperature = Return (*)(Device device, unsigned which, unsigned* celsius);
using GetEccErrors = Return (*)(Device device, unsigned type, unsigned counter,
                                unsigned long long* errors);
using GetRemappedRows = Return (*)(Device device, unsigned* corrected, unsigned* uncorrected,
                                   unsigned* pending, unsigned* failed);
using GetFieldValues = Return (*)(Device device, int count, FieldValue* values);
using GetLinkState = Return (*)(Device device, unsigned link, unsigned* active);
using GetLinkErrors = Return (*)(Device device, unsigned link, unsigned counter,
                                 unsigned long long* errors);
using CreateEventSet = Return (*)(EventSet* set);
using FreeEventSet = Return (*)(EventSet set);
using RegisterEvents = Return (*)(Device device, unsigned long long types, EventSet set);
using WaitForEvent = Return (*)(EventSet set, EventData* data, unsigned timeout_ms);

}  // namespace trireme::observe::nvml
