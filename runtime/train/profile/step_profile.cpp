#include "runtime/train/profile/step_profile.h"

#include <algorithm>

#include "runtime/optim/optimizer.h"

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

namespace {

const char* name(StepPart part) {
  switch (part) {
    case StepPart::data:
      return "data";
    case StepPart::zero_gradients:
      return "zero_gradients";
    case StepPart::exchange:
      return "exchange";
    case StepPart::result:
      return "result";
    case StepPart::gradient_sums:
      return "gradient_sums";
    case StepPart::gradient_norm:
      return "gradient_norm";
    case StepPart::update:
      return "update";
    case StepPart::gather_parameters:
      return "gather_parameters";
    case StepPart::between_ops:
      return "between_ops";
  }
  return "unknown";
}

/// What a rank sends along a ring of `ranks` to reduce and scatter, or to gather, `bytes` in equal
/// parts.
double ring_bytes(Index ranks, double bytes) {
  return static_cast<double>(ranks - 1) / static_cast<double>(ranks) * bytes;
}

double gradient_bytes(const FlatRange& range) {
  return static_cast<double>(range.count * size_bytes(DType::f32));
}

/// Elements of the slices of all other data ranks: what a rank sends to reduce and scatter a
/// bucket, and what it gets when slices are gathered.
Index of_others(const Bucket& bucket) { return bucket.range.count - bucket.slice.count; }

struct Sums {
  Index buckets = 0;
  double bytes = 0;
};

/// Of gradients, over the tensor axis, data, and the holders of tied parameters.
Sums sums_of(const FlatLayout& flat, const Mesh& mesh) {
  const Index tensor = mesh.shape().size(Role::tensor), data = mesh.shape().size(Role::batch);
  const bool sharded = flat.options().update == Update::sharded;
  Sums sums;
  for (const Bucket& bucket : flat.buckets()) {
    double bytes = 2 * ring_bytes(tensor, gradient_bytes(bucket.over_tensor));
    const bool tied = bucket.tie >= 0;
    if (sharded)
      bytes += static_cast<double>(of_others(bucket) * size_bytes(DType::f32));
    else if (!tied)
      bytes += 2 * ring_bytes(data, gradient_bytes(bucket.range));
    if (tied) {
      const auto holders =
          static_cast<Index>(flat.ties()[static_cast<std::size_t>(bucket.tie)].size());
      bytes += 2 * ring_bytes(holders * (sharded ? 1 : data), gradient_bytes(flat.updated(bucket)));
    }
    // A rank that has all slices of a bucket sends nothing, and waits for the others.
    if (bytes == 0 && !(sharded && data > 1)) continue;
    ++sums.buckets;
    sums.bytes += bytes;
  }
  return sums;
}

}  // namespace

StepTable::StepTable(const PlannedModel& model, const StageProgram& program, const FlatLayout& flat,
                     const Context& context) {
  add(StepPart::data, 1, 0);
  add(StepPart::zero_gradients, 1, static_cast<double>(flat.gradient_bytes()));
  for (const Plan& plan : model.chunks) add_plan(plan, context.micro_batches());
  add_exchanges(model, program);
  if (program.stage == program.shape.last_stage())
    add(StepPart::result, context.micro_batches(),
        static_cast<double>(context.micro_batches() * size_bytes(DType::f64)));
  add_update(flat, context);
  if (context.mesh().shape().size() > 1 || !context.options().checkpoint.save.empty())
    add(StepPart::between_ops, most_marks_, 0);
  const auto exchanges = static_cast<Index>(program.exchanges.size());
  most_marks_ = 2 * most_marks_ + 2 * exchanges + context.micro_batches() + step_parts;
}

int StepTable::find_or_add(const std::string& op, StepWork::Phase phase) {
  const auto row = std::find_if(rows_.begin(), rows_.end(),
                                [&](const StepRow& r) { return r.op == op && r.phase == phase; });
  const auto place = static_cast<int>(row - rows_.begin());
  if (row == rows_.end()) rows_.push_back({op, phase, {}, 0, 0, 0});
  return place;
}

void StepTable::add_plan(const Plan& plan, Index micro_batches) {
  std::vector<int>& rows = row_of_step_.emplace_back();
  for (const StepWork& work : plan.work()) {
    most_marks_ += micro_batches;
    rows.push_back(work.idle ? -1 : find_or_add(work.op, work.phase));
    if (work.idle) continue;
    StepRow& row = rows_[static_cast<std::size_t>(rows.back())];
    if (!work.name.empty() &&
        std::find(row.names.begin(), row.names.end(), work.name) == row.names.end())
      row.names.push_back(work.name);
    row.calls += micro_batches;
    row.bytes += work.bytes * static_cast<double>(micro_batches);
    row.flops += work.flops * static_cast<double>(micro_batches);
  }
}

void StepTable::add(StepPart part, Index calls, double bytes, double flops) {
  const int place = find_or_add(name(part), StepWork::Phase::step);
  row_of_part_[static_cast<std::size_t>(part)] = place;
  StepRow& row = rows_[static_cast<std::size_t>(place)];
  row.calls = calls;
  row.bytes = bytes;
  row.flops = flops;
}

void StepTable::add_exchanges(const PlannedModel& model, const StageProgram& program) {
  if (program.exchanges.empty()) return;
  const auto bytes_of = [&](const Hop& hop) {
    const Plan& plan = model.chunks[static_cast<std::size_t>(hop.chunk)];
    const bool values = hop.kind == Hop::Kind::values;
    return static_cast<double>((values ? plan.send_values() : plan.send_gradients()).bytes);
  };
  double bytes = 0;
  for (const Exchange& exchange : program.exchanges) {
    for (const Hop& hop : exchange.sends) bytes += bytes_of(hop);
    for (const LocalHop& hop : exchange.copies) bytes += 2 * bytes_of(hop.from);
  }
  add(StepPart::exchange, static_cast<Index>(program.exchanges.size()), bytes);
}

void StepTable::add_update(const FlatLayout& flat, const Context& context) {
  const Options& o = context.options();
  if (const Sums sums = sums_of(flat, context.mesh()); sums.buckets > 0)
    add(StepPart::gradient_sums, sums.buckets, sums.bytes);
  double in_norm = 0, updated = 0, gathered = 0;
  for (const FlatRange& range : flat.norm_ranges()) in_norm += static_cast<double>(range.count);
  for (const FlatParameter& parameter : flat.parameters()) {
    const FlatRange mine = flat.updated(flat.bucket_with(parameter));
    const Index begin = std::max(mine.begin, parameter.range.begin),
                end = std::min(mine.end(), parameter.range.end());
    updated += static_cast<double>(std::max<Index>(0, end - begin));
  }
  const auto buckets = static_cast<Index>(flat.buckets().size());
  const bool gathers = flat.options().update == Update::sharded && context.data_size() > 1;
  const UpdateCost cost = update_cost(o.optimizer, o.compute());
  add(StepPart::gradient_norm, 1, 4 * in_norm, 2 * in_norm);
  add(StepPart::update, gathers ? buckets : 1, cost.bytes * updated, cost.flops * updated);
  if (!gathers) return;
  for (const Bucket& bucket : flat.buckets())
    gathered += static_cast<double>(of_others(bucket) * size_bytes(o.compute()));
  add(StepPart::gather_parameters, buckets, gathered);
}

}  // namespace trireme::train
