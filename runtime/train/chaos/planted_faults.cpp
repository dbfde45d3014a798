#include "runtime/train/chaos/planted_faults.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>

#include <unistd.h>

#include "runtime/core/require_call.h"
#include "runtime/job/gpu_health.h"

namespace trireme::train {
namespace {

using observe::InjectedFault;
using Seconds = std::chrono::duration<double>;

// Headers of snapshots in memory, and other small files, stay below it.
constexpr rlim_t full_disk_bytes = 4096;
constexpr double disk_is_full_s = 60;  // at most

/// Until the process is ended.
[[noreturn]] void compute_without_end() {
  volatile std::uint64_t sum = 0;
  for (;;) sum = sum + 1;
}

}  // namespace

bool PlantedFaults::allowed() {
  const char* value = std::getenv("TRIREME_ALLOW_CHAOS");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

PlantedFaults::PlantedFaults(const Context& context, observe::StatusPage& page, bool is_allowed)
    : context_(context),
      page_(page),
      allowed_(is_allowed),
      nan_value_(std::numeric_limits<float>::quiet_NaN()) {}

PlantedFaults::~PlantedFaults() {
  if (disk_is_full_) ::setrlimit(RLIMIT_FSIZE, &file_size_);
}

void PlantedFaults::poll() {
  if (const std::uint64_t word = page_.take_injection(); word != 0)
    take(observe::injection_of(word));
  if (slow_steps_left_ > 0) slow_down();
}

void PlantedFaults::take(const observe::Injection& injection) {
  switch (injection.fault) {
    case InjectedFault::none:
      return;
    case InjectedFault::hang:
      compute_without_end();
    case InjectedFault::slow:
      slow_steps_left_ = slow_steps + 1;  // the rest of this step is none
      return;
    case InjectedFault::nan:
      nan_ = injection;
      return;
    case InjectedFault::flip:
      flip_ = injection;
      return;
    case InjectedFault::xid:
      job::end_as_if_gpu_was_lost(context_.host().rank());
    case InjectedFault::full_disk:
      fill_disk();
      return;
  }
}

void PlantedFaults::begin_step(Index step) {
  if (!allowed_) return;
  if (nan_.fault != InjectedFault::none) nan_step_ = step;
  if (slow_steps_left_ == 0) return;
  --slow_steps_left_;
  slow_step_begins_ = true;
  op_began_ = Clock::now();
  waited_before_ns_ = page_.waited_ns();
}

/// Sleeps as a slower processor would compute: without a heartbeat, and between ops, so that no
/// single gap grows by more than the factor.
void PlantedFaults::slow_down() {
  if (slow_steps_left_ > slow_steps) return;
  const Seconds waited(static_cast<double>(page_.waited_ns() - waited_before_ns_) / 1e9);
  const Seconds computed = std::max(Seconds(Clock::now() - op_began_) - waited, Seconds(0));
  Seconds more = (slow_factor - 1) * computed;
  if (slow_step_begins_) more += Seconds(slow_least_s);
  slow_step_begins_ = false;
  std::this_thread::sleep_for(more);
  op_began_ = Clock::now();
  waited_before_ns_ = page_.waited_ns();
}

void PlantedFaults::after_zero_gradients(Index step, const FlatParameters& flat, Stream& stream) {
  if (step != nan_step_ || flat.trained_count() == 0) return;
  // In a range that counts in the norm, so that no rank misses it: not in a copy.
  const std::vector<FlatRange> ranges = flat.norm_ranges();
  const FlatRange chosen = ranges.empty() ? FlatRange{0, 1} : ranges[nan_.draw % ranges.size()];
  stream.copy(flat.gradient_data() + chosen.begin, &nan_value_, sizeof nan_value_);
  context_.log().debug(str("chaos: a gradient of step ", step, " is no number"));
}

void PlantedFaults::before_replicas_are_compared(const FlatParameters& flat, Stream& stream) {
  if (flip_.fault == InjectedFault::none || flat.parameters().empty()) return;
  const FlatParameter& chosen = flat.parameters()[flip_.draw % flat.parameters().size()];
  // Bits of the mantissa: a flip of the exponent would be found by other means as well.
  constexpr std::uint32_t mantissa_bits_of_f32 = 23, mantissa_bits_of_bf16 = 7;
  const bool frozen = flat.bucket_with(chosen).frozen;
  const bool of_copy = flat.masters_are_slices() || (frozen && flat.has_copy());
  const std::size_t size = of_copy ? sizeof(Bf16) : sizeof(float);
  const std::uint32_t bit = flip_.draw % (of_copy ? mantissa_bits_of_bf16 : mantissa_bits_of_f32);
  std::byte* data = of_copy ? reinterpret_cast<std::byte*>(flat.compute_data())
                            : reinterpret_cast<std::byte*>(flat.master_data());
  data += static_cast<std::size_t>(chosen.range.begin) * size;
  std::byte bytes[sizeof(float)];
  stream.copy(bytes, data, static_cast<Index>(size));
  stream.synchronize();
  bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  stream.copy(data, bytes, static_cast<Index>(size));
  stream.synchronize();
  flip_ = {};
}

void PlantedFaults::end_step(Index failures) {
  if (!allowed_) return;
  if (nan_step_ >= 0) nan_ = {}, nan_step_ = -1;
  const bool enough = failures > 0 || Seconds(Clock::now() - disk_filled_).count() > disk_is_full_s;
  if (disk_is_full_ && enough) empty_disk();
}

/// Only the limit that this process may raise again changes. SIGXFSZ is ignored (this_process.h).
void PlantedFaults::fill_disk() {
  if (disk_is_full_) return;
  require_call(::getrlimit(RLIMIT_FSIZE, &file_size_) == 0, "getrlimit");
  rlimit low = file_size_;
  low.rlim_cur = std::min(low.rlim_cur, full_disk_bytes);
  require_call(::setrlimit(RLIMIT_FSIZE, &low) == 0, "setrlimit");
  disk_is_full_ = true;
  disk_filled_ = Clock::now();
}

void PlantedFaults::empty_disk() {
  require_call(::setrlimit(RLIMIT_FSIZE, &file_size_) == 0, "setrlimit");
  disk_is_full_ = false;
}

}  // namespace trireme::train
