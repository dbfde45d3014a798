#include "runtime/observe/gpu_health/nvml.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <dlfcn.h>

#include "trireme/core/error.h"

namespace trireme::observe {
namespace {

/// A function of the library, or null.
template <class F>
class Function {
 public:
  void load(void* library, const char* name) {
    call_ = reinterpret_cast<F>(::dlsym(library, name));
  }
  bool is_there() const { return call_ != nullptr; }
  /// What a missing function returns is no success.
  template <class... Arguments>
  nvml::Return operator()(Arguments... arguments) const {
    constexpr nvml::Return function_not_found = 13;
    return call_ == nullptr ? function_not_found : call_(arguments...);
  }

 private:
  F call_ = nullptr;
};

std::string path_of_library() {
  const char* given = std::getenv("TRIREME_NVML");
  return given == nullptr || *given == '\0' ? "libnvidia-ml.so.1" : given;
}

}  // namespace

struct Nvml::Library {
  explicit Library(const std::string& name) : path(name) {
    handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) load_functions();
  }
  ~Library() {
    if (events != nullptr) free_event_set(events);
    if (started) shut_down();
    if (handle != nullptr) ::dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void load_functions() {
    init.load(handle, "nvmlInit_v2");
    shut_down.load(handle, "nvmlShutdown");
    get_driver_version.load(handle, "nvmlSystemGetDriverVersion");
    get_count.load(handle, "nvmlDeviceGetCount_v2");
    get_handle.load(handle, "nvmlDeviceGetHandleByIndex_v2");
    get_name.load(handle, "nvmlDeviceGetName");
    get_uuid.load(handle, "nvmlDeviceGetUUID");
    get_pcie_width.load(handle, "nvmlDeviceGetCurrPcieLinkWidth");
    get_most_pcie_width.load(handle, "nvmlDeviceGetMaxPcieLinkWidth");
    get_memory.load(handle, "nvmlDeviceGetMemoryInfo");
    get_temperature.load(handle, "nvmlDeviceGetTemperature");
    get_threshold.load(handle, "nvmlDeviceGetTemperatureThreshold");
    get_reasons.load(handle, "nvmlDeviceGetCurrentClocksEventReasons");
    // its name before driver 535
    if (!get_reasons.is_there())
      get_reasons.load(handle, "nvmlDeviceGetCurrentClocksThrottleReasons");
    get_ecc_errors.load(handle, "nvmlDeviceGetTotalEccErrors");
    get_remapped_rows.load(handle, "nvmlDeviceGetRemappedRows");
    get_field_values.load(handle, "nvmlDeviceGetFieldValues");
    get_link_state.load(handle, "nvmlDeviceGetNvLinkState");
    get_link_errors.load(handle, "nvmlDeviceGetNvLinkErrorCounter");
    create_event_set.load(handle, "nvmlEventSetCreate");
    free_event_set.load(handle, "nvmlEventSetFree");
    register_events.load(handle, "nvmlDeviceRegisterEvents");
    wait_for_event.load(handle, "nvmlEventSetWait_v2");
  }

  nvml::Device device(int gpu) const { return devices[static_cast<std::size_t>(gpu)]; }

  std::string path;
  void* handle = nullptr;
  bool started = false;
  std::vector<nvml::Device> devices;
  nvml::EventSet events = nullptr;

  Function<nvml::Init> init, shut_down;
  Function<nvml::GetText> get_driver_version;
  Function<nvml::GetCount> get_count;
  Function<nvml::GetHandle> get_handle;
  Function<nvml::GetDeviceText> get_name, get_uuid;
  Function<nvml::GetNumber> get_pcie_width, get_most_pcie_width;
  Function<nvml::GetMemory> get_memory;
  Function<nvml::GetTemperature> get_temperature, get_threshold;
  Function<nvml::GetReasons> get_reasons;
  Function<nvml::GetEccErrors> get_ecc_errors;
  Function<nvml::GetRemappedRows> get_remapped_rows;
  Function<nvml::GetFieldValues> get_field_values;
  Function<nvml::GetLinkState> get_link_state;
  Function<nvml::GetLinkErrors> get_link_errors;
  Function<nvml::CreateEventSet> create_event_set;
  Function<nvml::FreeEventSet> free_event_set;
  Function<nvml::RegisterEvents> register_events;
  Function<nvml::WaitForEvent> wait_for_event;
};

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Nvml::~Nvml() = default;

std::unique_ptr<Nvml> Nvml::open(std::string& reason) {
  auto library = std::make_unique<Library>(path_of_library());
  if (library->handle == nullptr) {
    reason = ::dlerror();
    return nullptr;
  }
  const nvml::Return status = library->init();
  if (status != nvml::success) {
    reason = str(library->path, ": nvmlInit_v2 returns ", status);
    return nullptr;
  }
  library->started = true;
  unsigned count = 0;
  library->get_count(&count);
  for (unsigned i = 0; i < count; ++i) {
    nvml::Device device = nullptr;
    // One that is lost already has no handle: it is read as lost.
    if (library->get_handle(i, &device) != nvml::success) device = nullptr;
    library->devices.push_back(device);
  }
  return std::unique_ptr<Nvml>(new Nvml(std::move(library)));
}

std::string Nvml::driver_version() const {
  char text[96] = {};
  return library_->get_driver_version(text, unsigned{sizeof text}) == nvml::success ? text : "";
}

int Nvml::gpus() const { return static_cast<int>(library_->devices.size()); }

GpuFacts Nvml::facts(int gpu) const {
  const nvml::Device device = library_->device(gpu);
  GpuFacts facts;
  char text[96] = {};
  if (library_->get_name(device, text, unsigned{sizeof text}) == nvml::success) facts.name = text;
  if (library_->get_uuid(device, text, unsigned{sizeof text}) == nvml::success) facts.uuid = text;
  const auto number = [&](const Function<nvml::GetNumber>& get) -> std::optional<int> {
    unsigned value = 0;
    if (get(device, &value) != nvml::success) return std::nullopt;
    return static_cast<int>(value);
  };
  facts.pcie_width = number(library_->get_pcie_width);
  facts.most_pcie_width = number(library_->get_most_pcie_width);
  for (unsigned link = 0; link < nvml::most_nvlinks; ++link) {
    unsigned active = 0;
    if (library_->get_link_state(device, link, &active) != nvml::success) continue;
    facts.nvlinks = facts.nvlinks.value_or(0) + 1;
    facts.nvlinks_up = facts.nvlinks_up.value_or(0) + (active != 0 ? 1 : 0);
  }
  return facts;
}

std::optional<std::uint64_t> Nvml::used_memory(int gpu) const {
  nvml::Memory memory{};
  if (library_->get_memory(library_->device(gpu), &memory) != nvml::success) return std::nullopt;
  return memory.used;
}

GpuReading Nvml::read(int gpu) const {
  const nvml::Device device = library_->device(gpu);
  GpuReading reading;
  const auto works = [&](nvml::Return status) {
    reading.lost = reading.lost || status == nvml::gpu_is_lost;
    return status == nvml::success;
  };
  reading.lost = device == nullptr;
  if (reading.lost) return reading;

  nvml::FieldValue recovery{};
  recovery.field = nvml::field_recovery_action;
  if (works(library_->get_field_values(device, 1, &recovery)) && works(recovery.status))
    reading.recovery_action = recovery.value.u;
  unsigned long long errors = 0;
  if (works(library_->get_ecc_errors(device, nvml::corrected, nvml::volatile_counter, &errors)))
    reading.corrected_ecc = errors;
  if (works(library_->get_ecc_errors(device, nvml::uncorrected, nvml::volatile_counter, &errors)))
    reading.uncorrected_ecc = errors;
  unsigned of_corrected = 0, of_uncorrected = 0, pending = 0, failed = 0;
  if (works(
          library_->get_remapped_rows(device, &of_corrected, &of_uncorrected, &pending, &failed))) {
    reading.remap_pending = pending != 0;
    reading.remap_failed = failed != 0;
  }
  unsigned celsius = 0;
  if (works(library_->get_temperature(device, nvml::temperature_gpu, &celsius)))
    reading.temperature = static_cast<int>(celsius);
  if (works(library_->get_threshold(device, nvml::threshold_slowdown, &celsius)))
    reading.slowdown_temperature = static_cast<int>(celsius);
  for (unsigned link = 0; link < nvml::most_nvlinks; ++link)
    for (unsigned counter = 0; counter < nvml::nvlink_counters; ++counter) {
      if (!works(library_->get_link_errors(device, link, counter, &errors))) break;
      reading.nvlink_errors = reading.nvlink_errors.value_or(0) + errors;
    }
  return reading;
}

ClockLimits Nvml::clock_limits(int gpu) const {
  unsigned long long reasons = 0;
  if (library_->get_reasons(library_->device(gpu), &reasons) != nvml::success) return {};
  return {(reasons & (nvml::reason_sw_thermal | nvml::reason_hw_thermal)) != 0,
          (reasons & nvml::reason_power_brake) != 0};
}

bool Nvml::watch(int gpu) {
  if (library_->events == nullptr && library_->create_event_set(&library_->events) != nvml::success)
    library_->events = nullptr;
  if (library_->events == nullptr) return false;
  // A GPU without ECC refuses both together.
  for (const unsigned long long types :
       {nvml::event_xid | nvml::event_double_bit_ecc, nvml::event_xid})
    if (library_->register_events(library_->device(gpu), types, library_->events) == nvml::success)
      return true;
  return false;
}

std::optional<GpuEvent> Nvml::wait(int milliseconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  nvml::EventData data{};
  if (library_->events != nullptr &&
      library_->wait_for_event(library_->events, &data, static_cast<unsigned>(milliseconds)) ==
          nvml::success) {
    const auto& devices = library_->devices;
    const auto gpu = std::find(devices.begin(), devices.end(), data.device) - devices.begin();
    if (gpu < std::ssize(devices))
      return GpuEvent{static_cast<int>(gpu), data.type == nvml::event_xid, data.data};
  }
  std::this_thread::sleep_until(until);  // where the library did not wait
  return std::nullopt;
}

}  // namespace trireme::observe
