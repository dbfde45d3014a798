#include "runtime/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trireme/kernels/kernels.h"
#include "trireme/kernels/optimizer.h"

namespace trireme {

using namespace optim;

namespace {

Index moments(const OptimizerOptions& options) {
  return static_cast<Index>(Optimizer::state_names(options).size());
}

void check(const OptimizerOptions& o) {
  const auto fraction = [](const char* field, double value) {
    require(value >= 0 && value < 1, field, " is ", value, "; it must lie in [0, 1)");
  };
  const auto not_negative = [](const char* field, double value) {
    require(std::isfinite(value) && value >= 0, field, " is ", value, "; it must be >= 0");
  };
  const auto epsilon = static_cast<float>(o.epsilon);
  switch (o.kind) {
    case OptimizerOptions::Kind::adamw:
      fraction("--adam-beta1", o.beta1);
      fraction("--adam-beta2", o.beta2);
      require(std::isfinite(epsilon) && epsilon > 0, "--adam-eps is ", o.epsilon,
              "; it must be positive, and fp32 must be able to hold it");
      break;
    case OptimizerOptions::Kind::sgd:
      fraction("--momentum", o.momentum);
      break;
  }
  not_negative("--weight-decay", o.weight_decay);
  not_negative("--clip-grad", o.clip_norm);
}

/// What this rank updates: neighbours that are updated alike are one range. `first_of_bucket`: in
/// `ranges`, and their end.
struct Updates {
  std::vector<UpdateRange> ranges;
  std::vector<Index> first_of_bucket;
};

Updates updates_of(const FlatLayout& flat, const OptimizerOptions& options) {
  Updates updates;
  int bucket = -1;
  const auto begin_buckets_to = [&](int last) {
    for (; bucket < last; ++bucket)
      updates.first_of_bucket.push_back(static_cast<Index>(updates.ranges.size()));
  };
  for (std::size_t i = 0; i < flat.parameters().size(); ++i) {
    const FlatParameter& parameter = flat.parameters()[i];
    const double decay = flat.declared(static_cast<int>(i)).decays() ? options.weight_decay : 0;
    const Bucket& in = flat.bucket_with(parameter);
    const FlatRange mine = flat.updated(in);
    const Index begin = std::max(mine.begin, parameter.range.begin);
    const Index end = std::min(mine.end(), parameter.range.end());
    if (begin >= end) continue;
    // The few elements between two parameters are zero and stay so: neighbours that are updated
    // alike become one range.
    if (bucket == parameter.bucket && decay == updates.ranges.back().weight_decay) {
      updates.ranges.back().count = end - updates.ranges.back().begin;
      continue;
    }
    begin_buckets_to(parameter.bucket);
    updates.ranges.push_back({{begin, end - begin},
                              flat.master_begin(in) + begin - mine.begin,
                              in.state_begin + begin - mine.begin,
                              decay});
  }
  begin_buckets_to(static_cast<int>(flat.buckets().size()));
  return updates;
}

std::vector<DeviceList<UpdateRange>> lists_of_buckets(const Updates& updates,
                                                      const DeviceList<UpdateRange>& all) {
  std::vector<DeviceList<UpdateRange>> lists;
  for (std::size_t b = 0; b + 1 < updates.first_of_bucket.size(); ++b) {
    const Index first = updates.first_of_bucket[b], end = updates.first_of_bucket[b + 1];
    DeviceList<UpdateRange> list{all.ranges + first, end - first};
    for (Index i = first; i < end; ++i)
      list.tiles += updates.ranges[static_cast<std::size_t>(i)].tiles();
    lists.push_back(list);
  }
  return lists;
}

}  // namespace

const char* name(OptimizerOptions::Kind kind) {
  switch (kind) {
    case OptimizerOptions::Kind::adamw:
      return "adamw";
    case OptimizerOptions::Kind::sgd:
      return "sgd";
  }
  return "";
}

std::vector<std::string> Optimizer::state_names(const OptimizerOptions& options) {
  switch (options.kind) {
    case OptimizerOptions::Kind::adamw:
      return {"first_moment", "second_moment"};
    case OptimizerOptions::Kind::sgd:
      if (options.momentum != 0) return {"momentum"};
      return {};
  }
  throw Error("no such optimizer");
}

UpdateCost update_cost(const OptimizerOptions& options, DType compute) {
  constexpr double number = 4;
  const double copy = compute == DType::f32 ? 0 : static_cast<double>(size_bytes(compute));
  const double parameter_and_gradient = 3 * number, moment = 2 * number;
  const bool momentum = options.momentum != 0;
  switch (options.kind) {
    case OptimizerOptions::Kind::adamw:
      return {parameter_and_gradient + 2 * moment + copy, 15};
    case OptimizerOptions::Kind::sgd:
      return {parameter_and_gradient + (momentum ? moment : 0) + copy, momentum ? 7.0 : 5.0};
  }
  throw Error("no such optimizer");
}

Index Optimizer::state_bytes(const FlatLayout& flat, const OptimizerOptions& options) {
  return moments(options) * flat.state_count() * size_bytes(DType::f32) +
         GradientNorm::bytes(flat) + list_bytes(updates_of(flat, options).ranges);
}

Optimizer::Optimizer(const FlatParameters& flat, Mesh& mesh, Stream& stream,
                     const OptimizerOptions& options, const StepScalars* scalars, std::byte* state)
    : flat_(flat),
      data_(mesh.group(Role::shard)),
      stream_(stream),
      options_(options),
      scalars_(scalars),
      norm_(flat, mesh.world(), stream, state) {
  check(options);
  state += GradientNorm::bytes(flat);
  Updates updates = updates_of(flat, options);
  all_ = upload(updates.ranges, stream, state);
  buckets_ = lists_of_buckets(updates, all_);
  if (flat.options().update == Update::sharded && data_.size() > 1)
    gathers_.resize(buckets_.size());
  float* moment = reinterpret_cast<float*>(state + list_bytes(updates.ranges));
  if (moments(options) > 0) first_ = moment;
  if (moments(options) > 1) second_ = moment + flat.state_count();
}

void Optimizer::set_rates(StepScalars& scalars, double learning_rate) const {
  // 1 - beta^t of the beta that the kernel sees: in fp32, 1 - 0.999f is off by 5e-5.
  const auto correction = [&](double beta) {
    const double seen = static_cast<float>(beta);
    return static_cast<float>(1 - std::pow(seen, static_cast<double>(updates_ + 1)));
  };
  scalars.learning_rate = static_cast<float>(learning_rate);
  scalars.corrected_rate = scalars.learning_rate / correction(options_.beta1);
  scalars.second_correction = 1 / correction(options_.beta2);
}

void Optimizer::start_step(PartQueued queued, StepHashes* twice) {
  require(!started_, "an optimizer's step is started before the last one is finished");
  started_ = true;
  norm_.start(options_.clip_norm);
  queued(Part::norm);
  const UpdatedBuffers buffers{flat_.master_data(), first_, second_, flat_.compute_data()};
  if (gathers_.empty() && twice == nullptr) update(all_, buffers);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (twice != nullptr)
      update_twice(static_cast<int>(i), buffers, *twice);
    else if (!gathers_.empty())
      update(buckets_[i], buffers);
    if (!gathers_.empty()) start_gather(i);  // a bucket is on its way while the next is updated
  }
  queued(Part::update);
  for (const Ticket& gather : gathers_) data_.wait(gather, stream_);
  if (!gathers_.empty()) queued(Part::gather);
}

StepReport Optimizer::finish_step() {
  require(started_, "an optimizer's step is finished that was not started");
  started_ = false;
  const StepDecision decision = norm_.wait();  // the same bits on every rank
  if (decision.skip != 0) {
    ++skipped_;
    return {.grad_norm = decision.norm, .skipped = true};
  }
  ++updates_;
  return {.grad_norm = decision.norm, .clip_coefficient = decision.clip_coefficient};
}

void Optimizer::update_twice(int bucket, const UpdatedBuffers& buffers, StepHashes& hashes) {
  const DeviceList<UpdateRange>& list = buckets_[static_cast<std::size_t>(bucket)];
  const UpdatedBuffers copies = hashes.copy(bucket, buffers);
  update(list, buffers);
  update(list, copies);
  hashes.hash_update(bucket, buffers);
}

void Optimizer::update(const DeviceList<UpdateRange>& list, const UpdatedBuffers& buffers) {
  const auto f = [](double value) { return static_cast<float>(value); };
  const OptimizerKernels& kernels = stream_.kernels().optimizer;
  switch (options_.kind) {
    case OptimizerOptions::Kind::adamw:
      return kernels.adamw(stream_, {.list = list,
                                     .parameter = buffers.masters,
                                     .gradient = flat_.gradient_data(),
                                     .first_moment = buffers.first,
                                     .second_moment = buffers.second,
                                     .beta1 = f(options_.beta1),
                                     .beta2 = f(options_.beta2),
                                     .epsilon = f(options_.epsilon),
                                     .scalars = scalars_,
                                     .decision = norm_.decision(),
                                     .compute_copy = buffers.copy});
    case OptimizerOptions::Kind::sgd:
      return kernels.sgd(stream_, {.list = list,
                                   .parameter = buffers.masters,
                                   .gradient = flat_.gradient_data(),
                                   .momentum_buffer = buffers.first,
                                   .momentum = f(options_.momentum),
                                   .scalars = scalars_,
                                   .decision = norm_.decision(),
                                   .compute_copy = buffers.copy});
  }
}

void Optimizer::start_gather(std::size_t bucket) {
  const Bucket& b = flat_.buckets()[bucket];
  gathers_[bucket] =
      data_.start_all_gather(flat_.computed(b.slice), flat_.computed(b.range), stream_, {b.slices});
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
