// PlantedFaults: faults that a rank plants in itself when the supervisor asks for them by a word in
// the rank's status page (runtime/observe/injection.h). It acts only in a job that `trireme run
// --allow-chaos` has started; in any other a call costs a branch.
#pragma once

#include <chrono>
#include <cstdint>

#include <sys/resource.h>

#include "trireme/job/run.h"

#include "runtime/observe/injection.h"
#include "runtime/observe/status_page.h"
#include "runtime/optim/flat_parameters.h"

namespace trireme::train {

class PlantedFaults {
 public:
  static constexpr int slow_steps = 24;
  static constexpr double slow_factor = 3, slow_least_s = 0.1;  // what a slow step takes longer

  /// Whether the supervisor of this job takes requests for faults.
  static bool allowed();
  PlantedFaults(const Context& context, observe::StatusPage& page, bool is_allowed = allowed());
  ~PlantedFaults();
  PlantedFaults(const PlantedFaults&) = delete;
  PlantedFaults& operator=(const PlantedFaults&) = delete;

  /// Between two ops. Takes the word; hangs, is slow, ends this process, or limits its files.
  void at_op_boundary() {
    if (allowed_) poll();
  }
  void begin_step(Index step);
  /// After the gradients of a step are zeroed, and before the first is added.
  void after_zero_gradients(Index step, const FlatParameters& flat, Stream& stream);
  /// After an update that is about to be compared over the replicas.
  void before_replicas_are_compared(const FlatParameters& flat, Stream& stream);
  /// At the end of a step. `failures`: saves that failed since one that succeeded.
  void end_step(Index failures);

 private:
  using Clock = std::chrono::steady_clock;
  void poll();
  void take(const observe::Injection& injection);
  void slow_down();
  void fill_disk();
  void empty_disk();

  const Context& context_;
  observe::StatusPage& page_;
  const bool allowed_;
  observe::Injection nan_, flip_;  // asked for, and not planted yet
  Index nan_step_ = -1;
  float nan_value_;
  int slow_steps_left_ = 0;
  bool slow_step_begins_ = false;
  Clock::time_point op_began_;
  std::int64_t waited_before_ns_ = 0;
  bool disk_is_full_ = false;
  Clock::time_point disk_filled_;
  rlimit file_size_ = {};
};

}  // namespace trireme::train
