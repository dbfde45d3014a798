// fake_nvml: a libnvidia-ml that answers from a file, for machines without a GPU (TRIREME_NVML).
// The file is that of FAKE_NVML; "%h" in its path stands for the host name. Lines are "gpus COUNT"
// and "gpuN.KEY VALUE"; the last one of a key counts, so a test appends lines while a job runs:
//   temperature, slowdown, reasons, corrected, uncorrected, pending, failed, recovery, link_errors
//   used             bytes of memory
//   xid, xid_count   an event for each increase of the count since the GPU was registered
//   double_bits      the same for ECC errors; no_ecc 1: these events cannot be registered
//   no_memory 1      the used memory is not known
//   lost 1           every question returns "GPU is lost"
// What a file lacks is 0, as of a GPU that is well.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include <unistd.h>

#include "runtime/observe/gpu_health/nvml.h"

namespace {

namespace nvml = trireme::observe::nvml;
constexpr nvml::Return timeout = 10, not_supported = 3, invalid = 2;

std::string path() {
  const char* given = std::getenv("FAKE_NVML");
  std::string text = given == nullptr ? "" : given;
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  if (const std::size_t at = text.find("%h"); at != std::string::npos) text.replace(at, 2, host);
  return text;
}

unsigned long long number(const std::string& key, unsigned long long otherwise = 0) {
  std::ifstream in(path());
  unsigned long long value = otherwise;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    unsigned long long given = 0;
    if (words >> word >> given && word == key) value = given;
  }
  return value;
}

int index_of(nvml::Device device) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(device)) - 1;
}
unsigned long long of(nvml::Device device, const char* key, unsigned long long otherwise = 0) {
  return number("gpu" + std::to_string(index_of(device)) + "." + key, otherwise);
}
nvml::Return state(nvml::Device device) {
  return of(device, "lost") != 0 ? nvml::gpu_is_lost : nvml::success;
}

template <class T>
nvml::Return give(nvml::Device device, T* to, const char* key, unsigned long long otherwise = 0) {
  *to = static_cast<T>(of(device, key, otherwise));
  return state(device);
}

/// Of a set of events: how many of each kind were reported, by GPU.
struct Reported {
  unsigned long long types = 0, xids = 0, double_bits = 0;
};
struct Set {
  std::map<int, Reported> gpus;
};

/// Whether there is one more of a kind that is registered.
bool next_event(nvml::Device device, Reported& reported, nvml::EventData& data) {
  if (of(device, "xid_count") > reported.xids) {
    ++reported.xids;
    data = {device, nvml::event_xid, of(device, "xid"), 0, 0};
    return true;
  }
  if ((reported.types & nvml::event_double_bit_ecc) == 0 ||
      of(device, "double_bits") <= reported.double_bits)
    return false;
  ++reported.double_bits;
  data = {device, nvml::event_double_bit_ecc, 0, 0, 0};
  return true;
}

}  // namespace

extern "C" {

nvml::Return nvmlInit_v2() { return path().empty() ? not_supported : nvml::success; }
nvml::Return nvmlShutdown() { return nvml::success; }
nvml::Return nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  std::snprintf(text, bytes, "fake 1.0");
  return nvml::success;
}
nvml::Return nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(number("gpus", 1));
  return nvml::success;
}
nvml::Return nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml::Device* device) {
  *device = reinterpret_cast<nvml::Device>(std::uintptr_t{index} + 1);
  return index < number("gpus", 1) ? state(*device) : invalid;
}
nvml::Return nvmlDeviceGetName(nvml::Device device, char* text, unsigned bytes) {
  std::snprintf(text, bytes, "fake GPU");
  return state(device);
}
/// That of the host emulation (tests/cuda_emulation).
nvml::Return nvmlDeviceGetUUID(nvml::Device device, char* text, unsigned bytes) {
  std::snprintf(text, bytes, "GPU-00000000-0000-0000-0000-%012x",
                static_cast<unsigned>(index_of(device)));
  return state(device);
}
nvml::Return nvmlDeviceGetCurrPcieLinkWidth(nvml::Device device, unsigned* width) {
  return give(device, width, "pcie_width", 16);
}
nvml::Return nvmlDeviceGetMaxPcieLinkWidth(nvml::Device device, unsigned* width) {
  return give(device, width, "most_pcie_width", 16);
}
nvml::Return nvmlDeviceGetMemoryInfo(nvml::Device device, nvml::Memory* memory) {
  *memory = {};
  if (of(device, "no_memory") != 0) return not_supported;
  return give(device, &memory->used, "used");
}
nvml::Return nvmlDeviceGetTemperature(nvml::Device device, unsigned /*which*/, unsigned* celsius) {
  return give(device, celsius, "temperature", 40);
}
nvml::Return nvmlDeviceGetTemperatureThreshold(nvml::Device device, unsigned /*which*/,
                                               unsigned* celsius) {
  return give(device, celsius, "slowdown", 90);
}
nvml::Return nvmlDeviceGetCurrentClocksThrottleReasons(nvml::Device device,
                                                       unsigned long long* reasons) {
  return give(device, reasons, "reasons");
}
nvml::Return nvmlDeviceGetTotalEccErrors(nvml::Device device, unsigned type, unsigned /*counter*/,
                                         unsigned long long* errors) {
  return give(device, errors, type == nvml::corrected ? "corrected" : "uncorrected");
}
nvml::Return nvmlDeviceGetRemappedRows(nvml::Device device, unsigned* corrected,
                                       unsigned* uncorrected, unsigned* pending, unsigned* failed) {
  *corrected = *uncorrected = 0;
  give(device, pending, "pending");
  return give(device, failed, "failed");
}
nvml::Return nvmlDeviceGetFieldValues(nvml::Device device, int count, nvml::FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    const bool known = values[i].field == nvml::field_recovery_action;
    values[i].status = known ? nvml::success : not_supported;
    if (known) values[i].value.u = static_cast<unsigned>(of(device, "recovery"));
  }
  return state(device);
}
nvml::Return nvmlDeviceGetNvLinkState(nvml::Device device, unsigned link, unsigned* active) {
  *active = link < of(device, "links_up") ? 1 : 0;
  return link < of(device, "links") ? state(device) : invalid;
}
nvml::Return nvmlDeviceGetNvLinkErrorCounter(nvml::Device device, unsigned link,
                                             unsigned /*counter*/, unsigned long long* errors) {
  return link == 0 ? give(device, errors, "link_errors") : not_supported;
}
nvml::Return nvmlEventSetCreate(nvml::EventSet* set) {
  *set = new Set;
  return nvml::success;
}
nvml::Return nvmlEventSetFree(nvml::EventSet set) {
  delete static_cast<Set*>(set);
  return nvml::success;
}
nvml::Return nvmlDeviceRegisterEvents(nvml::Device device, unsigned long long types,
                                      nvml::EventSet set) {
  if ((types & ~(nvml::event_xid | nvml::event_double_bit_ecc)) != 0) return not_supported;
  if ((types & nvml::event_double_bit_ecc) != 0 && of(device, "no_ecc") != 0) return not_supported;
  static_cast<Set*>(set)->gpus[index_of(device)] = {types, of(device, "xid_count"),
                                                    of(device, "double_bits")};
  return state(device);
}
nvml::Return nvmlEventSetWait_v2(nvml::EventSet set, nvml::EventData* data, unsigned timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    for (auto& [gpu, reported] : static_cast<Set*>(set)->gpus) {
      const auto device = reinterpret_cast<nvml::Device>(static_cast<std::uintptr_t>(gpu) + 1);
      if (next_event(device, reported, *data)) return nvml::success;
    }
    if (Clock::now() >= until) return timeout;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // extern "C"
