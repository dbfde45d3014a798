// Timetable: the work orders of all stages run in time slots, each work one slot, a whole backward
// two, as early as its input allows. It checks the orders on the way: complete, in order of
// micro-batches per chunk, and without circular waiting.
#pragma once

#include <string>
#include <vector>

#include "trireme/pipeline/schedule.h"

namespace trireme::pipeline {

struct TimedWork {
  Work work;
  Index begin, end;
};

class Timetable {
 public:
  /// Throws: Error that says what is wrong with the orders, or which stage waits for what.
  Timetable(const std::vector<WorkOrder>& orders, const PipelineShape& shape);

  bool has_backward() const { return has_backward_; }
  const std::vector<TimedWork>& work(int stage) const {
    return work_[static_cast<std::size_t>(stage)];
  }
  /// When virtual stage v has run forward, has made its input gradients, and is done with
  /// micro-batch i.
  Index forward(int v, Index i) const { return at(v, i).forward; }
  Index backward(int v, Index i) const { return at(v, i).backward; }
  Index released(int v, Index i) const { return at(v, i).released; }
  /// Memory slots that virtual stage v needs. Training: most micro-batches between their forward
  /// and their release. Forward only: most between their arrival and their release, for the sender
  /// does not keep them.
  Index in_flight(int v) const { return in_flight_[static_cast<std::size_t>(v)]; }

 private:
  static constexpr Index not_yet = -1;
  struct Times {
    Index forward = not_yet, backward = not_yet, released = not_yet;
  };
  const Times& at(int v, Index i) const {
    return times_[static_cast<std::size_t>(v * shape_.micro_batches + i)];
  }
  Times& at(int v, Index i) {
    return times_[static_cast<std::size_t>(v * shape_.micro_batches + i)];
  }

  struct Done;
  std::string turn_problem(const Work& work, Index next, Index limit) const;
  std::string half_problem(int chunk, Index micro_batch) const;
  void check_order(const WorkOrder& order, int stage);
  void check_complete(const Done& done, int stage, int chunk) const;
  Index input_ready(const Work& work, int stage) const;
  bool run_next(const WorkOrder& order, int stage);
  void count_arrivals();
  [[noreturn]] void fail(const std::vector<WorkOrder>& orders) const;

  PipelineShape shape_;
  bool has_backward_ = false;
  std::vector<std::vector<TimedWork>> work_;  // per stage
  std::vector<Times> times_;                  // (virtual stage, micro-batch)
  std::vector<Index> in_flight_;              // per virtual stage
};

}  // namespace trireme::pipeline
