#include "runtime/train/input_batch.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trireme/core/bf16.h"

#include "runtime/core/text/exception_text.h"

namespace trireme::train {
namespace {

/// Sample `i` of an input.
void* row_of(const Tensor& input, Index i) {
  return static_cast<std::byte*>(input.data) + i * (input.bytes() / input.shape[0]);
}

/// Throws: Error that names the sample when the source throws anything.
Index fill(DataSource& source, Index sample, const std::vector<Tensor>& row) {
  try {
    return source.fill(sample, row);
  } catch (...) {
    throw Error(str("DataSource::fill of sample ", sample, ": ", current_exception_text()));
  }
}

/// Behind each row where a source is checked.
constexpr int guard_bytes = 64;
constexpr std::byte guard{0xa5};

/// What DataSource::fill has returned. The bound keeps sums over any global batch exact.
Index checked_targets(Index targets, Index sample) {
  constexpr Index most = Index{1} << 32;
  require(0 <= targets && targets <= most, "DataSource::fill says that sample ", sample, " has ",
          targets, " targets; a sample has from 0 to ", most);
  return targets;
}

}  // namespace

InputBatch::InputBatch(const PlannedInputs& plan, Device& device, bool check_finite)
    : plan_(plan),
      check_finite_(check_finite),
      memory_(device.allocate_pinned(plan.bytes())),
      read_(device.make_event()) {
  std::byte* next = memory_.data();
  for (Index m = 0; m < plan.micro_batches; ++m) {
    std::vector<Tensor>& tensors = inputs_.emplace_back(plan.inputs.size());
    for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
      if (!plan.inputs[i].used) continue;
      tensors[i] = plan.inputs[i].batch;
      tensors[i].data = next;
      next += plan.inputs[i].bytes();
    }
  }
  for (const PlannedInputs::Row& row : plan.rows) row_.push_back(row.sample);
  for (const PlannedInputs::Input& input : plan.inputs) {
    const bool staged = input.used && (check_finite || plan.rounded(input));
    const auto bytes = static_cast<std::size_t>(row_[input.row].bytes());
    staged_.emplace_back(staged ? bytes + (check_finite ? std::size_t{guard_bytes} : 0) : 0, guard);
  }
}

void InputBatch::check_rows(Index sample) const {
  for (std::size_t k = 0; k < staged_.size(); ++k) {
    const bool whole =
        staged_[k].empty() || std::all_of(staged_[k].end() - guard_bytes, staged_[k].end(),
                                          [](std::byte behind) { return behind == guard; });
    require(whole, "DataSource::fill of sample ", sample, " writes beyond input '",
            plan_.rows[plan_.inputs[k].row].name, "', which has ",
            row_[plan_.inputs[k].row].count(), " elements");
  }
  // A floating row is f32 here, whatever the model takes.
  for (std::size_t k = 0; k < row_.size(); ++k) {
    if (row_[k].data == nullptr || row_[k].dtype != DType::f32) continue;
    const float* row = row_[k].as<float>();
    for (Index i = 0; i < row_[k].count(); ++i)
      require(std::isfinite(row[i]), "input '", plan_.rows[k].name, "' of sample ", sample,
              ": element ", i, " is ", row[i], ", not a finite number (DataSource::fill)");
  }
}

void InputBatch::take_row(std::size_t k, void* to) const {
  const PlannedInputs::Input& input = plan_.inputs[k];
  const Tensor& row = row_[input.row];
  if (plan_.rounded(input))
    std::transform(row.as<float>(), row.as<float>() + row.count(), static_cast<Bf16*>(to), to_bf16);
  else
    std::memcpy(to, row.data, static_cast<std::size_t>(row.bytes()));
}

Index InputBatch::load(DataSource& source, Index first, Index end) {
  Index targets = 0;
  for (Index m = 0; m < plan_.micro_batches; ++m)
    for (Index i = 0; i < plan_.micro_batch_size; ++i) {
      const std::vector<Tensor>& inputs = inputs_[static_cast<std::size_t>(m)];
      for (std::size_t k = 0; k < inputs.size(); ++k)
        row_[plan_.inputs[k].row].data = inputs[k].data == nullptr ? nullptr
                                         : !staged_[k].empty()     ? staged_[k].data()
                                                                   : row_of(inputs[k], i);
      const Index number = std::min(first + first_sample(m) + i, end - 1);
      const Index sample = skipped_ == nullptr ? number : skipped_->at(number);
      targets += checked_targets(fill(source, sample, row_), sample);
      if (check_finite_) check_rows(sample);
      for (std::size_t k = 0; k < inputs.size(); ++k)
        if (!staged_[k].empty()) take_row(k, row_of(inputs[k], i));
    }
  return targets;
}

void InputBatch::begin(Index step) { step_ = step; }

MicroBatch InputBatch::micro_batch(int /*chunk*/, Index number) {
  MicroBatch batch;
  batch.step = step_;
  batch.number = number;
  batch.first_sample = first_sample(number);
  batch.inputs = inputs_[static_cast<std::size_t>(number)];
  return batch;
}

}  // namespace trireme::train
