#include "runtime/train/profile/step_profile.h"

namespace trireme::train {

StepProfile::StepProfile(StepTable table, Stream& stream)
    : table_(std::move(table)), stream_(stream), start_(stream.device().make_timer()) {
  for (Index i = 0; i < table_.most_marks(); ++i) timers_.push_back(stream.device().make_timer());
  marks_.reserve(timers_.size());
}

void StepProfile::begin() {
  marks_.clear();
  recording_ = true;
  start_->record(stream_);
  counted_ = stream_.operations();
}

void StepProfile::mark(int row) {
  if (!recording_ || row < 0) return;
  require(marks_.size() < timers_.size(), "internal: a step has more than ", timers_.size(),
          " pieces of work");
  const Index operations = stream_.operations() - counted_;
  timers_[marks_.size()]->record(stream_);
  marks_.push_back({row, operations});
  counted_ = stream_.operations();
}

void StepProfile::end() {
  recording_ = false;
  require(!marks_.empty(), "internal: the profile of a step is empty");
  timers_[marks_.size() - 1]->synchronize();
}

std::vector<StepProfile::Times> StepProfile::times() const {
  std::vector<Times> times(table_.rows().size());
  const Event* before = start_.get();
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    Times& row = times[static_cast<std::size_t>(marks_[i].row)];
    row.seconds += timers_[i]->seconds_since(*before);
    row.operations += marks_[i].operations;
    ++row.marks;
    before = timers_[i].get();
  }
  return times;
}

}  // namespace trireme::train
