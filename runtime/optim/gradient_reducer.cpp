#include "runtime/optim/gradient_reducer.h"

#include <algorithm>

#include "runtime/core/at.h"
#include "runtime/core/seconds_since.h"

namespace trireme {

namespace {

Elements elements(float* data, FlatRange range) {
  return {data + range.begin, range.count, DType::f32};
}

}  // namespace

// When sharded, copies of one slice meet: the same place on the data and tensor axes. Else copies
// on all data ranks meet, so that one sum gives all of them the same bits.
TieGroups split_ties(const FlatLayout& flat, Mesh& mesh) {
  const int color =
      mesh.coordinate(flat.options().update == Update::sharded ? Role::layers : Role::tensor);
  TieGroups result;
  for (const std::vector<int>& holders : flat.ties()) {
    const bool holder =
        std::find(holders.begin(), holders.end(), mesh.coordinate(Role::stage)) != holders.end();
    result.push_back(mesh.split(holder ? color : -1, "tied parameters"));
  }
  return result;
}

GradientReducer::Hooks::Hooks(GradientReducer* reducer, int chunk) : reducer_(reducer) {
  if (reducer_ != nullptr) bucket_of_ = &reducer_->flat_.bucket_of(chunk);
}

void GradientReducer::Hooks::gradient_ready(int position) {
  if (reducer_ != nullptr) reducer_->gradient_ready((*bucket_of_)[at(position)]);
}

void GradientReducer::Hooks::op_boundary() {
  if (reducer_ == nullptr) return;
  ++reducer_->record_.boundaries;
  reducer_->progress();
}

GradientReducer::GradientReducer(const FlatParameters& flat, Mesh& mesh, Stream& stream,
                                 const TieGroups& ties)
    : flat_(flat),
      tensor_(mesh.group(Role::tensor)),
      data_(mesh.group(Role::gradient)),
      stream_(stream),
      ties_(ties),
      uses_(flat.buckets().size(), 0),
      progress_(flat.buckets().size()),
      made_(std::chrono::steady_clock::now()) {
  require(flat.options().data_size == data_.size() && flat.options().data_rank == data_.rank(),
          "flat parameters are laid out for data rank ", flat.options().data_rank, " of ",
          flat.options().data_size, ", the mesh has data rank ", data_.rank(), " of ",
          data_.size());
  require(flat.gradient_data() != nullptr || flat.trained_count() == 0,
          "flat parameters must be bound to a gradient buffer");
  for (int c = 0; c < flat.chunks(); ++c)
    for (int bucket : flat.bucket_of(c))
      if (at(bucket) < uses_.size()) ++uses_[at(bucket)];  // frozen ones get no gradients
  record_.entries.reserve(progress_.size());
}

void GradientReducer::begin_step() {
  stream_.zero(flat_.gradient_data(), flat_.gradient_bytes());
  for (std::size_t b = 0; b < progress_.size(); ++b) {
    progress_[b] = {};
    progress_[b].waiting = uses_[b];
  }
  pending_ = -1;
  record_.entries.clear();
  record_.boundaries = 0;
}

void GradientReducer::progress() {
  if (record_.entries.empty()) return;
  if (pending_ >= 0) tensor_.progress();
  data_.progress();
}

void GradientReducer::gradient_ready(int bucket) {
  Progress& p = progress_[at(bucket)];
  require(p.waiting > 0, "bucket ", bucket,
          " gets more gradients than it has; begin_step() was not called");
  if (--p.waiting == 0) start(bucket);
}

void GradientReducer::start(int bucket) {
  // A point of the program that all members of the groups pass in the same order; the sum over the
  // tensor axis of the bucket before has had all the time since its own start.
  start_pending();
  if (hashes_ != nullptr) hashes_->hash_terms(bucket);
  Progress& p = progress_[at(bucket)];
  p.started = true;
  const FlatRange terms = flat_.buckets()[at(bucket)].over_tensor;
  if (terms.count == 0) {
    start_data(bucket);
    return;
  }
  note_start(bucket);
  p.tensor =
      tensor_.start_all_reduce(elements(flat_.gradient_data(), terms), Reduction::sum, stream_);
  pending_ = bucket;
}

void GradientReducer::start_pending() {
  if (pending_ < 0) return;
  tensor_.wait(progress_[at(pending_)].tensor, stream_);
  start_data(pending_);
  pending_ = -1;
}

void GradientReducer::start_data(int bucket) {
  const Bucket& b = flat_.buckets()[at(bucket)];
  const bool sharded = flat_.options().update == Update::sharded;
  if (data_.size() == 1 || (b.tie >= 0 && !sharded))
    return;  // nothing to do, or start_tie() does it
  note_start(bucket);
  const Elements all = elements(flat_.gradient_data(), b.range);
  progress_[at(bucket)].data =
      sharded ? data_.start_reduce_scatter(all, elements(flat_.gradient_data(), b.slice),
                                           Reduction::sum, stream_, {b.slices})
              : data_.start_all_reduce(all, Reduction::sum, stream_);
}

void GradientReducer::start_tie(int bucket) {
  const Bucket& b = flat_.buckets()[at(bucket)];
  note_start(bucket);
  progress_[at(bucket)].tie = ties_[at(b.tie)]->start_all_reduce(
      elements(flat_.gradient_data(), flat_.updated(b)), Reduction::sum, stream_);
}

void GradientReducer::finish() {
  record_.backward_end_ms = now_ms();
  const int buckets = static_cast<int>(progress_.size());
  for (int b = 0; b < buckets; ++b)  // parameters that got no gradient on this step
    if (!progress_[at(b)].started) start(b);
  start_pending();
  // All members have started their sums over data before any waits, and all wait for the ties in
  // one order: no cycle of waits.
  const auto wait = [&](Communicator& group, Ticket ticket, int bucket) {
    group.wait(ticket, stream_);
    record_.entries[at(progress_[at(bucket)].entry)].done_ms = now_ms();
  };
  for (const ReductionRecord::Entry& entry : record_.entries)
    wait(data_, progress_[at(entry.bucket)].data, entry.bucket);
  for (int b = 0; b < buckets; ++b)
    if (flat_.buckets()[at(b)].tie >= 0) start_tie(b);
  for (int b = 0; b < buckets; ++b)
    if (const int tie = flat_.buckets()[at(b)].tie; tie >= 0)
      wait(*ties_[at(tie)], progress_[at(b)].tie, b);
}

void GradientReducer::note_start(int bucket) {
  Progress& p = progress_[at(bucket)];
  if (p.entry >= 0) return;  // a later sum of the same bucket
  p.entry = static_cast<int>(record_.entries.size());
  record_.entries.push_back({bucket, record_.boundaries, now_ms(), 0});
}

double GradientReducer::now_ms() const { return 1e3 * seconds_since(made_); }

}  // namespace trireme
