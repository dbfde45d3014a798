#include "runtime/optim/clipping.h"

#include <cstring>

#include "trireme/kernels/kernels.h"
#include "trireme/kernels/optimizer.h"

namespace trireme::optim {

namespace {

constexpr Index scalar_bytes = 64;  // the sum and the decision
static_assert(sizeof(double) + sizeof(StepDecision) <= scalar_bytes);

std::vector<ListedRange> listed_ranges(const FlatLayout& flat) {
  std::vector<ListedRange> ranges;
  for (const FlatRange& range : flat.norm_ranges()) ranges.push_back({range.begin, range.count});
  return ranges;
}

}  // namespace

Index GradientNorm::bytes(const FlatLayout& flat) {
  return scalar_bytes + list_bytes(listed_ranges(flat));
}

GradientNorm::GradientNorm(const FlatParameters& flat, Communicator& world, Stream& stream,
                           std::byte* memory)
    : flat_(flat),
      world_(world),
      stream_(stream),
      sum_(reinterpret_cast<double*>(memory)),
      decision_(reinterpret_cast<StepDecision*>(sum_ + 1)),
      on_host_(stream.device().allocate_pinned(sizeof(StepDecision))),
      decided_(stream.device().make_event()) {
  std::vector<ListedRange> ranges = listed_ranges(flat);
  list_ = upload(ranges, stream, memory + scalar_bytes);
}

void GradientNorm::start(double max_norm) {
  const OptimizerKernels& kernels = stream_.kernels().optimizer;
  kernels.sum_of_squares(stream_, {.list = list_, .x = flat_.gradient_data(), .sum = sum_});
  world_.all_reduce({sum_, 1, DType::f64}, Reduction::sum, stream_);
  kernels.decide(stream_, {.sum = sum_, .max_norm = max_norm, .decision = decision_});
  stream_.copy(on_host_.data(), decision_, sizeof(StepDecision));
  decided_->record(stream_);
}

StepDecision GradientNorm::wait() {
  decided_->synchronize();
  StepDecision decision;
  std::memcpy(&decision, on_host_.data(), sizeof decision);
  return decision;
}

}  // namespace trireme::optim
