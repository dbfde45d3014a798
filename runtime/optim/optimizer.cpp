#include "trireme/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "trireme/kernels/kernels.h"

namespace trireme {

namespace {

Index moments(const OptimizerOptions& options) {
  return static_cast<Index>(Optimizer::state_names(options).size());
}

void check(const OptimizerOptions& o) {
  const auto fraction = [](const char* option, double value) {
    require(value >= 0 && value < 1, option, " is ", value, "; it must lie in [0, 1)");
  };
  const auto not_negative = [](const char* option, double value) {
    require(std::isfinite(value) && value >= 0, option, " is ", value, "; it must be >= 0");
  };
  if (o.kind == OptimizerOptions::Kind::adamw) {
    fraction("--adam-beta1", o.beta1);
    fraction("--adam-beta2", o.beta2);
    require(std::isfinite(o.epsilon) && o.epsilon > 0, "--adam-eps is ", o.epsilon,
            "; it must be positive");
  } else {
    fraction("--momentum", o.momentum);
  }
  not_negative("--weight-decay", o.weight_decay);
  not_negative("--clip-grad", o.clip_norm);
}

}  // namespace

const char* name(OptimizerOptions::Kind kind) {
  return kind == OptimizerOptions::Kind::adamw ? "adamw" : "sgd";
}

std::vector<std::string> Optimizer::state_names(const OptimizerOptions& options) {
  if (options.kind == OptimizerOptions::Kind::adamw) return {"first_moment", "second_moment"};
  if (options.momentum != 0) return {"momentum"};
  return {};
}

Index Optimizer::state_bytes(const FlatParameters& flat, const OptimizerOptions& options) {
  return moments(options) * flat.state_count() * size_bytes(DType::f32) +
         GradientNorm::scratch_bytes + scale_bytes;
}

Optimizer::Optimizer(const FlatParameters& flat, Mesh& mesh, Stream& stream,
                     const OptimizerOptions& options, std::byte* state)
    : flat_(flat),
      data_(mesh.axis(Axis::data)),
      stream_(stream),
      options_(options),
      norm_(flat, mesh.world(), stream, state),
      gathers_(flat.buckets().size()),
      scale_(reinterpret_cast<float*>(state + GradientNorm::scratch_bytes)) {
  check(options);
  float* data = scale_ + scale_bytes / size_bytes(DType::f32);
  if (moments(options) > 0) first_ = data;
  if (moments(options) > 1) second_ = data + flat.state_count();
  make_runs();
}

void Optimizer::make_runs() {
  for (const FlatParameter& parameter : flat_.parameters()) {
    const Bucket& bucket = flat_.buckets()[static_cast<std::size_t>(parameter.bucket)];
    const FlatRange mine = flat_.updated(bucket);
    const Index begin = std::max(mine.begin, parameter.range.begin);
    const Index end = std::min(mine.end(), parameter.range.end());
    if (begin >= end) continue;
    // The few elements between two parameters are zero and stay so: neighbours of one group become
    // one run.
    if (!runs_.empty() && runs_.back().bucket == parameter.bucket &&
        runs_.back().decay == parameter.decay)
      runs_.back().range.count = end - runs_.back().range.begin;
    else
      runs_.push_back({parameter.bucket,
                       {begin, end - begin},
                       bucket.state_begin + begin - mine.begin,
                       parameter.decay});
  }
}

StepReport Optimizer::step(double learning_rate) {
  StepReport report;
  report.grad_norm = norm_.compute();
  report.skipped = !std::isfinite(report.grad_norm);  // the same bits on every rank
  if (report.skipped) {
    ++skipped_;
    return report;
  }
  report.clip_coefficient = clip_coefficient(report.grad_norm, options_.clip_norm);
  const float scale = static_cast<float>(report.clip_coefficient);
  stream_.copy(scale_, &scale, size_bytes(DType::f32));
  ++updates_;
  const bool gathers = flat_.options().update == Update::sharded && data_.size() > 1;
  const int buckets = static_cast<int>(flat_.buckets().size());
  auto run = runs_.begin();
  for (int b = 0; b < buckets; ++b) {  // a bucket is on its way while the next one is updated
    for (; run != runs_.end() && run->bucket == b; ++run) update(*run, learning_rate);
    if (gathers) start_gather(b);
  }
  if (gathers)
    for (const Ticket& gather : gathers_) data_.wait(gather, stream_);
  return report;
}

void Optimizer::update(const Run& run, double learning_rate) {
  float* parameter = flat_.parameter_data() + run.range.begin;
  const float* gradient = flat_.gradient_data() + run.range.begin;
  float* first = first_ != nullptr ? first_ + run.state_begin : nullptr;
  float* second = second_ != nullptr ? second_ + run.state_begin : nullptr;
  const auto f = [](double value) { return static_cast<float>(value); };
  const float decay = run.decay ? f(options_.weight_decay) : 0;
  if (options_.kind == OptimizerOptions::Kind::adamw) {
    // 1 - beta^t of the beta that the kernel sees: in fp32, 1 - 0.999f is off by 5e-5.
    const auto correction = [&](double beta) {
      return f(1 - std::pow(static_cast<double>(f(beta)), static_cast<double>(updates_)));
    };
    stream_.kernels().optimizer.adamw(stream_, {.count = run.range.count,
                                                .parameter = parameter,
                                                .gradient = gradient,
                                                .first_moment = first,
                                                .second_moment = second,
                                                .learning_rate = f(learning_rate),
                                                .beta1 = f(options_.beta1),
                                                .beta2 = f(options_.beta2),
                                                .epsilon = f(options_.epsilon),
                                                .weight_decay = decay,
                                                .bias_correction1 = correction(options_.beta1),
                                                .bias_correction2 = correction(options_.beta2),
                                                .gradient_scale = scale_});
  } else {
    stream_.kernels().optimizer.sgd(stream_, {.count = run.range.count,
                                              .parameter = parameter,
                                              .gradient = gradient,
                                              .momentum_buffer = first,
                                              .learning_rate = f(learning_rate),
                                              .momentum = f(options_.momentum),
                                              .weight_decay = decay,
                                              .gradient_scale = scale_});
  }
}

void Optimizer::start_gather(int bucket) {
  const Bucket& b = flat_.buckets()[static_cast<std::size_t>(bucket)];
  float* data = flat_.parameter_data();
  gathers_[static_cast<std::size_t>(bucket)] =
      data_.start_all_gather({data + b.slice.begin, b.slice.count, DType::f32},
                             {data + b.range.begin, b.range.count, DType::f32}, stream_);
  data_.progress();
}

void Optimizer::set_updates(Index updates) {
  require(updates >= 0, "an optimizer cannot have made ", updates, " updates");
  updates_ = updates;
}

std::vector<Optimizer::StateTensor> Optimizer::state_tensors() const {
  std::vector<StateTensor> tensors;
  for (std::string& name : state_names(options_))
    tensors.push_back({std::move(name), tensors.empty() ? first_ : second_});
  return tensors;
}

}  // namespace trireme
