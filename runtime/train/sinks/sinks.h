// Sinks: where the records of a job go.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/function_ref.h"
#include "trireme/job/run.h"
#include "trireme/train/trainer.h"

#include "runtime/checkpoint/save_record.h"
#include "runtime/train/sinks/records.h"

namespace trireme::train {

/// Takes the records of a job, on rank 0. Allocates nothing in take(StepRecord).
class Sink {
 public:
  virtual ~Sink() = default;
  /// Comes once in a job that trains, before its first step is taken.
  virtual void begin(const RunRecord&) {}
  virtual void take(const StepRecord&) {}
  virtual void take(const EvaluationRecord&) {}
  /// A save became durable, or failed.
  virtual void take(const SaveRecord&) {}
  virtual void take(const NoteRecord&) {}
};

/// The sinks of a job, which get every record in the order in which they were added. A sink that
/// throws gets no more records, with a warning, and the job continues.
class Sinks {
 public:
  explicit Sinks(const Log& log) : log_(log) {}
  enum class OnFailure { drop_it, throw_on };
  /// Does nothing on ranks other than 0. `name`: its subject in the warning.
  void add(std::string name, std::unique_ptr<Sink> sink, OnFailure on_failure = OnFailure::drop_it);
  bool has(std::string_view name) const;

  void begin(const RunRecord& record) {
    for_each([&](Sink& sink) { sink.begin(record); });
  }
  template <class Record>
  void take(const Record& record) {
    for_each([&](Sink& sink) { sink.take(record); });
  }

 private:
  struct Entry {
    std::string name;
    std::unique_ptr<Sink> sink;
    OnFailure on_failure;
  };
  void for_each(FunctionRef<void(Sink&)> hand_over);

  const Log& log_;
  std::vector<Entry> entries_;
};

/// Returns the sinks that a job has from its beginning: the console.
Sinks make_sinks(const Context& context);
/// Collective. Adds the file of --metrics, unless it is there. `resumed_after`: the lines of later
/// steps are removed, since the job repeats them. Throws: ConfigurationError on all ranks when the
/// file cannot be used.
void open_metrics(const Context& context, Sinks& sinks, std::optional<Index> resumed_after = {});

/// Returns the sinks that the records of `trainer` go to.
Sinks& sinks_of(Trainer& trainer);

}  // namespace trireme::train
