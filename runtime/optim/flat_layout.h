// FlatLayout: where every parameter of this rank lies. Parameters and their gradients are two flat
// buffers of one layout, cut into buckets: contiguous ranges that are reduced, updated and gathered
// as one. The order is the order in which gradients become ready over the rank's whole backward.
// Both are f32. When a model computes in bf16, a third buffer with the same offsets holds the
// rounded parameters: the compute copy, which ops read. Everything else uses the f32 masters. A
// rank then keeps only the masters that it updates: with a sharded update its slices, packed like
// the optimizer's state. Frozen parameters lie behind all others and exist as ops read them only.
// No memory here (FlatParameters) and no communication.
//
// Not installed; modules above may include it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "trireme/core/box.h"
#include "trireme/core/function_ref.h"
#include "trireme/optim/optimizer_options.h"

#include "runtime/graph/compile/plan.h"

namespace trireme {

struct FlatOptions {
  Index bucket_bytes = Index{4} << 20;  // a bucket is closed once it reaches this size
  int data_rank = 0, data_size = 1;
  Update update = Update::replicated;
  DType compute = DType::f32;  // type of the plans: f32, or bf16 with a compute copy
  /// The slices of all data ranks relative to each other; empty: equal.
  std::vector<Index> shares = {};
};

/// Elements [begin, begin + count) of a flat buffer.
struct FlatRange {
  Index begin = 0, count = 0;
  Index end() const { return begin + count; }
  friend bool operator==(const FlatRange&, const FlatRange&) = default;
};

struct Bucket {
  FlatRange range;  // starts at 64 bytes; consists of a slice of whole 64 bytes for each data rank
  FlatRange slice;  // that of this data rank
  /// Elements of all slices, in the order of data ranks, as collectives take them; empty: equal.
  std::vector<Index> slices;
  FlatRange over_tensor;  // gradients in here are first summed over the tensor axis; may be empty
  /// Index in FlatLayout::ties(): one tied parameter, the same bucket on all its holders.
  int tie = -1;
  Index state_begin = 0;  // where the optimizer state of `updated()` starts in each state buffer
  bool frozen = false;    // holds frozen parameters: nothing is reduced or updated
};

/// One parameter of this rank.
struct FlatParameter {
  int id;           // in Graph::parameters()
  FlatRange range;  // starts at 64 bytes; no gaps inside
  int bucket;
  /// In its data rank, this rank's copy is the one that counts in norms and exports: tensor rank 0
  /// for replicated ones, the lowest holder for tied ones.
  bool owned;
  /// Ranks of one data rank that hold the same values (tensor ranks of a replicated one, holders
  /// of a tied one), and this rank's index among them: 0 if `owned`.
  int copies, copy;
};

/// The flat buffer that offsets refer to: the gradients and the parameters as ops read them, the
/// f32 masters (of frozen parameters, whose extents then have its type, the compute copy), or a
/// state buffer of the optimizer, where frozen parameters have no part.
enum class FlatBuffer { computed, masters, state };

/// The part of a logical tensor that lies in a flat buffer: box i is packed at element offsets[i].
/// Padding is not part of any box.
struct FlatExtent {
  Extent extent;
  std::vector<Index> offsets;
  bool owned;  // as in FlatParameter
};

class FlatLayout {
 public:
  /// `chunks`: the training plans of this rank, in the order of their stages.
  /// Reads the graph only in this constructor. Throws: Error when stages and chunks do not fit, or
  /// two chunks disagree on how a gradient is summed.
  FlatLayout(const Graph& graph, const StageCut& cut, const std::vector<const Plan*>& chunks,
             const FlatOptions& options);

  const FlatOptions& options() const { return options_; }
  /// Returns what is reduced and updated.
  std::span<const Bucket> buckets() const { return {buckets_.data(), trained_buckets_}; }
  /// Returns buckets(), and behind them those of frozen parameters: what is loaded and compared.
  const std::vector<Bucket>& all_buckets() const { return buckets_; }
  /// Returns the parameters in flat order.
  const std::vector<FlatParameter>& parameters() const { return parameters_; }
  /// Sets of pipeline ranks that hold copies of one trained parameter, over the whole model: the
  /// same list on every rank.
  const std::vector<std::vector<int>>& ties() const { return ties_; }
  int chunks() const { return static_cast<int>(bucket_of_.size()); }
  /// Bucket of each entry of the chunk's Plan::parameters(), in all_buckets().
  const std::vector<int>& bucket_of(int chunk) const {
    return bucket_of_[static_cast<std::size_t>(chunk)];
  }
  /// What this rank updates of a bucket: its slice when sharded, else all of it; of frozen ones
  /// nothing.
  FlatRange updated(const Bucket& bucket) const {
    if (bucket.frozen) return {bucket.range.begin, 0};
    return options_.update == Update::sharded ? bucket.slice : bucket.range;
  }

  /// Elements of all parameters, of the gradients, and of each state buffer of the optimizer
  /// (moments).
  Index count() const { return count_; }
  Index trained_count() const { return trained_count_; }
  Index state_count() const { return state_count_; }
  /// Masters, followed by their compute copy if there is one.
  Index parameter_bytes() const { return master_bytes() + compute_bytes(); }
  Index master_bytes() const { return master_count() * size_bytes(DType::f32); }
  /// Elements of the masters: state_count() of them where masters_are_slices(); without a compute
  /// copy all parameters, else those that are trained.
  Index master_count() const {
    return !has_copy() ? count_ : masters_are_slices() ? state_count_ : trained_count_;
  }
  /// Whether there is a compute copy. Otherwise ops read the masters.
  bool has_copy() const { return options_.compute != DType::f32; }
  /// Whether a rank has masters only of `updated()`. It then has what other data ranks update in
  /// the compute copy only. The masters are laid out like the optimizer's state.
  bool masters_are_slices() const { return has_copy() && options_.update == Update::sharded; }
  /// Returns where the masters of `updated(bucket)` begin.
  Index master_begin(const Bucket& bucket) const {
    return masters_are_slices() ? bucket.state_begin : updated(bucket).begin;
  }
  Index compute_bytes() const { return has_copy() ? count_ * size_bytes(options_.compute) : 0; }
  Index gradient_bytes() const { return trained_count_ * size_bytes(DType::f32); }

  /// Position in parameters() of each parameter that the plan reads or writes, in the order of
  /// plan.parameters(): any plan over this rank's stages, forward-only ones too. Throws: Error for
  /// a parameter that this rank does not hold, or a plan that computes in another type.
  std::vector<int> positions(const Plan& plan) const;
  /// Returns the parameter that the graph declared.
  const Parameter& declared(int position) const {
    return declared_[static_cast<std::size_t>(position)];
  }
  const Bucket& bucket_with(const FlatParameter& parameter) const {
    return buckets_[static_cast<std::size_t>(parameter.bucket)];
  }
  /// What is added to the offset of an element of `updated(bucket)` in the gradients, for its
  /// offset in `buffer`; of a frozen bucket 0.
  Index shift_of(FlatBuffer buffer, const Bucket& bucket) const;

  /// The part of each logical tensor that this rank computes with; offsets of FlatBuffer::computed.
  std::vector<FlatExtent> parameter_extents() const;
  /// The part of each logical tensor whose masters this rank has; offsets into them.
  std::vector<FlatExtent> master_extents() const;
  /// The part of each logical tensor that this rank updates; offsets into a state buffer.
  std::vector<FlatExtent> state_extents() const;
  /// The part of each logical tensor in this data rank's slices, whichever rank updates it: each
  /// element once over the data axis.
  std::vector<FlatExtent> slice_extents(FlatBuffer buffer) const;
  /// The part of each logical tensor that this rank writes to a checkpoint: each element once over
  /// all ranks, with the work spread over data replicas and copies. The same elements for all
  /// buffers.
  std::vector<FlatExtent> written_extents(FlatBuffer buffer) const;
  /// Ranges of the gradient buffer whose elements count in global norms: each logical element once
  /// over all ranks.
  std::vector<FlatRange> norm_ranges() const;

  /// The table of buckets for --dump-plan.
  std::string describe() const;

 private:
  struct Item;
  FlatRange written(const FlatParameter& parameter) const;
  std::vector<FlatExtent> extents(FlatBuffer buffer,
                                  FunctionRef<FlatRange(const FlatParameter&)> range_of) const;
  void place(const std::vector<Item>& items);
  void place_alone(std::vector<Item> items);
  void place_bucket(std::vector<Item> items);

  FlatOptions options_;
  std::vector<FlatParameter> parameters_;
  std::vector<Parameter> declared_;  // as the graph has them, in flat order
  std::vector<int> flat_of_id_;      // graph id -> flat position, or -1
  std::vector<Bucket> buckets_;
  std::size_t trained_buckets_ = 0;  // the first ones
  std::vector<std::vector<int>> ties_;
  std::vector<std::vector<int>> bucket_of_;
  Index count_ = 0, trained_count_ = 0, state_count_ = 0;
};

}  // namespace trireme
