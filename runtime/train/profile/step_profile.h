// StepProfile: a timer after every piece of work of one step. All timers are created before the
// first step; other steps record none.
#pragma once

#include <memory>
#include <vector>

#include "runtime/train/input_batch.h"
#include "runtime/train/profile/step_table.h"

namespace trireme::train {

class StepProfile {
 public:
  StepProfile(StepTable table, Stream& stream);

  const StepTable& table() const { return table_; }
  /// Starts timing marked work, until end().
  void begin();
  /// Work of this kind is on the stream, from the last mark or begin() to here. No effect
  /// outside of begin() and end(), and where the table has no such row.
  void mark(StepPart part) { mark(table_.row_of(part)); }
  void mark(int chunk, int step) { mark(table_.row_of(chunk, step)); }
  /// Waits for the last mark.
  void end();

  struct Times {
    double seconds = 0;
    Index marks = 0, operations = 0;  // operations: calls that put something on the stream
  };
  /// Of the rows of the table, after end().
  std::vector<Times> times() const;

 private:
  struct Mark {
    int row;
    Index operations;
  };
  void mark(int row);

  StepTable table_;
  Stream& stream_;
  std::unique_ptr<Event> start_;
  std::vector<std::unique_ptr<Event>> timers_;
  std::vector<Mark> marks_;  // as many as are recorded
  Index counted_ = 0;        // operations of the stream up to the last mark
  bool recording_ = false;
};

/// The batches of the step that is profiled.
class ProfiledBatch final : public MicroBatchSource {
 public:
  ProfiledBatch(InputBatch& inputs, StepProfile& profile) : inputs_(inputs), profile_(profile) {}
  MicroBatch micro_batch(int chunk, Index number) override {
    return inputs_.micro_batch(chunk, number);
  }
  void on_queued(Queued what) override {
    profile_.mark(what == Queued::exchange ? StepPart::exchange : StepPart::result);
  }

 private:
  InputBatch& inputs_;
  StepProfile& profile_;
};

}  // namespace trireme::train
