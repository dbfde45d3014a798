// What is used of NVML's interface (nvml.h of CUDA 13), so that no header of NVIDIA is needed to
// build. Values are those of nvml.h; nvmlDevice_t and nvmlEventSet_t are pointers there too.
#pragma once

#include <cstdint>

namespace trireme::observe::nvml {

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
