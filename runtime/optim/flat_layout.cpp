#include "runtime/optim/flat_layout.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "runtime/core/at.h"
#include "runtime/core/round_up.h"
#include "runtime/optim/packed_boxes.h"

namespace trireme {

namespace {

constexpr Index alignment = 64 / 4;  // elements

/// The pipeline rank of each stage, of a rank with `chunks` stages.
std::vector<int> ranks_of_stages(const StageCut& cut, int chunks) {
  if (!cut.rank_of_stage.empty()) return cut.rank_of_stage;
  std::vector<int> ranks;
  for (int stage = 0; stage < cut.stages; ++stage) ranks.push_back(stage % (cut.stages / chunks));
  return ranks;
}

/// Pipeline ranks that hold copies.
std::vector<int> holder_ranks(const std::set<int>& stages, const std::vector<int>& rank_of_stage) {
  std::set<int> ranks;
  for (int stage : stages) ranks.insert(rank_of_stage[at(stage)]);
  return {ranks.begin(), ranks.end()};
}

/// Parameters in the order in which the last contribution to their gradient comes, chunks going
/// backward.
std::vector<int> readiness_order(const std::vector<const Plan*>& chunks) {
  std::vector<int> order;
  for (auto plan = chunks.rbegin(); plan != chunks.rend(); ++plan)
    for (int id : (*plan)->parameters()) {
      std::erase(order, id);
      order.push_back(id);
    }
  return order;
}

/// Per graph id: whether its gradient is summed over the tensor axis.
std::vector<bool> sums_over_tensor(const Graph& graph, const std::vector<const Plan*>& chunks) {
  enum Sum { unknown, no, yes };
  std::vector<Sum> sums(graph.parameters().size(), unknown);
  for (const Plan* plan : chunks)
    for (std::size_t i = 0; i < plan->parameters().size(); ++i) {
      const int id = plan->parameters()[i];
      const Sum sum = plan->sums_over_tensor()[i] && graph.tensor_size() > 1 ? yes : no;
      Sum& known = sums[at(id)];
      require(
          known == unknown || known == sum, "the gradient of parameter ",
          graph.parameters()[at(id)].name(),
          " is partial on the tensor axis in one chunk of this rank and complete in another; use "
          "it alike in both");
      known = sum;
    }
  std::vector<bool> result;
  for (Sum sum : sums) result.push_back(sum == yes);
  return result;
}

/// The distinct sets of two or more pipeline ranks that hold one trained parameter.
std::vector<std::vector<int>> find_ties(const Graph& graph, const StageCut& cut,
                                        const std::vector<int>& rank_of_stage) {
  std::set<std::vector<int>> ties;
  for (const Parameter& parameter : graph.parameters()) {
    const std::set<int>& stages = cut.holders[at(parameter.id)];
    if (stages.size() < 2 || parameter.frozen()) continue;
    std::vector<int> ranks = holder_ranks(stages, rank_of_stage);
    if (ranks.size() > 1) ties.insert(std::move(ranks));
  }
  return {ties.begin(), ties.end()};
}

void check_shares(const FlatOptions& options) {
  const std::vector<Index>& shares = options.shares;
  if (shares.empty()) return;
  require(static_cast<int>(shares.size()) == options.data_size, "there are ", shares.size(),
          " shares for the slices of ", options.data_size, " data ranks");
  require(*std::min_element(shares.begin(), shares.end()) >= 0 &&
              *std::max_element(shares.begin(), shares.end()) > 0,
          "shares for slices have to be 0 or more, and one of them more than 0");
}

/// Slices for so many elements, at least, in proportion to the shares: equal ones of equal shares.
std::vector<Index> slices_of(Index elements, const std::vector<Index>& shares) {
  const Index sum = std::accumulate(shares.begin(), shares.end(), Index{0});
  const Index lines = round_up(elements, alignment) / alignment;
  std::vector<Index> slices;
  for (const Index share : shares) slices.push_back((lines * share + sum - 1) / sum * alignment);
  return slices;
}

/// Sets range.count and the slices, for so many elements from range.begin on.
void cut_into_slices(Bucket& bucket, Index elements, const FlatOptions& options) {
  Index before = 0, mine = 0;
  if (options.shares.empty()) {
    mine = round_up(elements, options.data_size * alignment) / options.data_size;
    before = options.data_rank * mine;
    bucket.range.count = options.data_size * mine;
  } else {
    bucket.slices = slices_of(elements, options.shares);
    const auto own = bucket.slices.begin() + options.data_rank;
    mine = *own;
    before = std::accumulate(bucket.slices.begin(), own, Index{0});
    bucket.range.count = std::accumulate(own, bucket.slices.end(), before);
  }
  bucket.slice = {bucket.range.begin + before, mine};
}

void check_chunks(const StageCut& cut, const std::vector<const Plan*>& chunks) {
  require(!chunks.empty(), "a rank needs at least one chunk");
  const int count = static_cast<int>(chunks.size());
  require(cut.stages % count == 0, cut.stages, " stages do not divide into ", count,
          " chunks a rank");
  const std::vector<int> rank_of_stage = ranks_of_stages(cut, count);
  std::vector<int> expected;
  for (int stage = 0; stage < cut.stages; ++stage)
    if (rank_of_stage[at(stage)] == rank_of_stage[at(chunks[0]->stage())])
      expected.push_back(stage);
  require(expected.size() == chunks.size(), "a rank has ", count, " chunks, but ", expected.size(),
          " of ", cut.stages, " stages");
  for (int c = 0; c < count; ++c)
    require(chunks[at(c)]->stage() == expected[at(c)], "chunk ", c, " of ", count, " is stage ",
            chunks[at(c)]->stage(), " of ", cut.stages, "; expected stage ", expected[at(c)]);
}

}  // namespace

/// A parameter that waits for its place.
struct FlatLayout::Item {
  const Parameter* parameter;
  bool over_tensor;
  int tie;  // or -1
  int copies, copy;
};

FlatLayout::FlatLayout(const Graph& graph, const StageCut& cut,
                       const std::vector<const Plan*>& chunks, const FlatOptions& options)
    : options_(options), flat_of_id_(graph.parameters().size(), -1) {
  require(options.compute == DType::f32 || options.compute == DType::bf16,
          "models compute in f32 or bf16, not ", options.compute);
  require(options.bucket_bytes > 0, "bucket bytes are ", options.bucket_bytes,
          "; they must be positive");
  require(0 <= options.data_rank && options.data_rank < options.data_size, "data rank ",
          options.data_rank, " of ", options.data_size);
  check_shares(options);
  check_chunks(cut, chunks);
  const std::vector<int> rank_of_stage = ranks_of_stages(cut, static_cast<int>(chunks.size()));
  const int pipeline_rank = rank_of_stage[at(chunks[0]->stage())];
  ties_ = find_ties(graph, cut, rank_of_stage);

  const std::vector<bool> over_tensor = sums_over_tensor(graph, chunks);
  std::vector<Item> own, tied, frozen, frozen_tied;
  for (int id : readiness_order(chunks)) {
    const Parameter& parameter = graph.parameters()[at(id)];
    const std::vector<int> holders = holder_ranks(cut.holders[at(id)], rank_of_stage);
    const auto tie = std::find(ties_.begin(), ties_.end(), holders);
    const bool replicated = parameter.placement == Placement::replicated;
    const int holder = static_cast<int>(std::find(holders.begin(), holders.end(), pipeline_rank) -
                                        holders.begin());
    const int copies_here = replicated ? graph.tensor_size() : 1;
    const int copy = holder * copies_here + (replicated ? graph.tensor_rank() : 0);
    const int copies = static_cast<int>(holders.size()) * copies_here;
    const bool is_tied = holders.size() > 1;
    (parameter.frozen() ? (is_tied ? frozen_tied : frozen) : (is_tied ? tied : own))
        .push_back({&parameter, over_tensor[at(id)] && !parameter.frozen(),
                    is_tied && !parameter.frozen() ? static_cast<int>(tie - ties_.begin()) : -1,
                    copies, copy});
  }
  place(own);
  place_alone(std::move(tied));
  trained_buckets_ = buckets_.size();
  trained_count_ = count_;
  place(frozen);
  place_alone(std::move(frozen_tied));

  for (const Plan* plan : chunks) {
    std::vector<int>& buckets = bucket_of_.emplace_back();
    for (int id : plan->parameters())
      buckets.push_back(parameters_[at(flat_of_id_[at(id)])].bucket);
  }
}

void FlatLayout::place(const std::vector<Item>& items) {
  std::vector<Item> bucket;
  Index bytes = 0;
  for (const Item& item : items) {
    bucket.push_back(item);
    bytes += item.parameter->spec.shape.count() * size_bytes(DType::f32);
    if (bytes >= options_.bucket_bytes || &item == &items.back()) {
      place_bucket(std::move(bucket));
      bucket.clear();
      bytes = 0;
    }
  }
}

/// Alike on all holders: in the order of the graph, each in a bucket of its own.
void FlatLayout::place_alone(std::vector<Item> items) {
  std::sort(items.begin(), items.end(),
            [](const Item& a, const Item& b) { return a.parameter->id < b.parameter->id; });
  for (const Item& item : items) place_bucket({item});
}

void FlatLayout::place_bucket(std::vector<Item> items) {
  // Partial gradients lie side by side, for one sum over the tensor axis.
  const auto partial = std::stable_partition(items.begin(), items.end(),
                                             [](const Item& item) { return !item.over_tensor; });
  Bucket bucket;
  bucket.tie = items.front().tie;
  bucket.frozen = items.front().parameter->frozen();
  bucket.range.begin = count_;
  for (auto item = items.begin(); item != items.end(); ++item) {
    const Parameter& parameter = *item->parameter;
    const FlatRange range{count_, parameter.spec.shape.count()};
    if (item == partial) bucket.over_tensor.begin = range.begin;
    if (item >= partial) bucket.over_tensor.count = range.end() - bucket.over_tensor.begin;
    flat_of_id_[at(parameter.id)] = static_cast<int>(parameters_.size());
    parameters_.push_back({parameter.id, range, static_cast<int>(buckets_.size()), item->copy == 0,
                           item->copies, item->copy});
    declared_.push_back(parameter);
    count_ = round_up(range.end(), alignment);
  }
  cut_into_slices(bucket, count_ - bucket.range.begin, options_);
  bucket.state_begin = state_count_;
  count_ = bucket.range.end();
  state_count_ += updated(bucket).count;
  buckets_.push_back(std::move(bucket));
}

std::vector<int> FlatLayout::positions(const Plan& plan) const {
  require(plan.compute() == options_.compute, "the plan of stage ", plan.stage(), " computes in ",
          plan.compute(), ", flat parameters are laid out for ", options_.compute);
  std::vector<int> result;
  for (int id : plan.parameters()) {
    const int i = id < static_cast<int>(flat_of_id_.size()) ? flat_of_id_[at(id)] : -1;
    require(i >= 0, "parameter ", id, " of the plan of stage ", plan.stage(),
            " is not held by this rank");
    result.push_back(i);
  }
  return result;
}

std::string FlatLayout::describe() const {
  std::string text =
      fmt::format("{} parameters in {} buckets, {} bytes in f32{}{}, {} elements updated here\n",
                  parameters_.size(), buckets_.size(), master_bytes(),
                  masters_are_slices() ? " (those updated here)" : "",
                  compute_bytes() == 0 ? ""
                                       : fmt::format(" and {} bytes of compute copy in {}",
                                                     compute_bytes(), name(options_.compute)),
                  state_count_);
  if (trained_count_ < count_)
    text += fmt::format("{} buckets are frozen, {} elements: no gradients, masters or moments\n",
                        buckets_.size() - trained_buckets_, count_ - trained_count_);
  text += fmt::format("{:>6} {:>12} {:>12} {:>12} {:>6}  {}\n", "bucket", "begin", "elements",
                      "over_tensor", "", "parameters");
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    std::string first, last;
    Index names = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].bucket == static_cast<int>(b))
        (names++ == 0 ? first : last) = declared_[i].name();
    text += fmt::format("{:>6} {:>12} {:>12} {:>12} {:>6}  {}\n", b, bucket.range.begin,
                        bucket.range.count, bucket.over_tensor.count,
                        bucket.frozen    ? "frozen"
                        : bucket.tie < 0 ? ""
                                         : "tied",
                        names <= 1 ? first : fmt::format("{} ... {} ({})", first, last, names));
  }
  return text;
}

// Continues FlatLayout (runtime/optim/flat_layout.h): as logical tensors, extents, and what counts
// in norms. Only which part of a logical tensor is visited depends on the layout; padding is never
// visited.

using namespace optim;

namespace {

/// Calls f(packed box) for the elements of `part` inside `range`, in order.
template <class F>
void for_each_inside(const ParameterPart& part, Index offset, FlatRange range, F&& f) {
  for (const Packed& packed : packed_boxes(part, offset)) {
    const Index begin = std::max(range.begin, packed.offset) - packed.offset;
    const Index end = std::min(range.end(), packed.offset + packed.box.count()) - packed.offset;
    if (begin >= end) continue;
    Index at = packed.offset + begin;
    for (const Box& box : boxes_of_flat_range(packed.box, begin, end)) {
      f(Packed{box, at});
      at += box.count();
    }
  }
}

/// `shift`: what is added to flat offsets.
void append_extents(const Parameter& declared, const FlatParameter& parameter, FlatRange range,
                    DType dtype, Index shift, std::vector<FlatExtent>& out) {
  for (const ParameterPart& part : declared.parts) {
    FlatExtent flat{{part.name, dtype, part.global, {}}, {}, parameter.owned};
    for_each_inside(part, parameter.range.begin, range, [&](const Packed& packed) {
      flat.extent.boxes.push_back(packed.box);
      flat.offsets.push_back(packed.offset + shift);
    });
    if (!flat.extent.boxes.empty()) out.push_back(std::move(flat));
  }
}

}  // namespace

Index FlatLayout::shift_of(FlatBuffer buffer, const Bucket& bucket) const {
  if (bucket.frozen) return 0;
  switch (buffer) {
    case FlatBuffer::computed:
      return 0;
    case FlatBuffer::masters:
      return master_begin(bucket) - updated(bucket).begin;
    case FlatBuffer::state:
      return bucket.state_begin - updated(bucket).begin;
  }
  return 0;
}

std::vector<FlatExtent> FlatLayout::extents(
    FlatBuffer buffer, FunctionRef<FlatRange(const FlatParameter&)> range_of) const {
  std::vector<FlatExtent> result;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Bucket& bucket = bucket_with(parameters_[i]);
    if (bucket.frozen && buffer == FlatBuffer::state) continue;
    const bool in_copy = bucket.frozen && buffer == FlatBuffer::masters;
    append_extents(declared_[i], parameters_[i], range_of(parameters_[i]),
                   in_copy ? options_.compute : DType::f32, shift_of(buffer, bucket), result);
  }
  return result;
}

std::vector<FlatExtent> FlatLayout::parameter_extents() const {
  return extents(FlatBuffer::computed, [](const FlatParameter& p) { return p.range; });
}

std::vector<FlatExtent> FlatLayout::master_extents() const {
  return extents(FlatBuffer::masters, [&](const FlatParameter& p) {
    const Bucket& bucket = bucket_with(p);
    return masters_are_slices() || (bucket.frozen && has_copy()) ? updated(bucket) : p.range;
  });
}

std::vector<FlatExtent> FlatLayout::state_extents() const {
  return extents(FlatBuffer::state,
                 [&](const FlatParameter& p) { return updated(bucket_with(p)); });
}

std::vector<FlatExtent> FlatLayout::slice_extents(FlatBuffer buffer) const {
  return extents(buffer, [&](const FlatParameter& p) { return bucket_with(p).slice; });
}

std::vector<FlatExtent> FlatLayout::written_extents(FlatBuffer buffer) const {
  return extents(buffer, [&](const FlatParameter& p) { return written(p); });
}

/// The slice of this data rank, cut into equal parts for its copies where that makes pieces worth
/// writing.
FlatRange FlatLayout::written(const FlatParameter& parameter) const {
  constexpr Index worth_cutting = (Index{64} << 10) / 4;  // elements
  const FlatRange slice = bucket_with(parameter).slice;
  const Index begin = std::max(slice.begin, parameter.range.begin);
  const Index count = std::min(slice.end(), parameter.range.end()) - begin;
  if (count <= 0) return {};
  if (count < worth_cutting) return parameter.owned ? FlatRange{begin, count} : FlatRange{};
  const auto cut = [&](Index copy) { return count * copy / parameter.copies; };
  return {begin + cut(parameter.copy), cut(parameter.copy + 1) - cut(parameter.copy)};
}

std::vector<FlatRange> FlatLayout::norm_ranges() const {
  std::vector<FlatRange> result;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Bucket& bucket = bucket_with(parameters_[i]);
    if (!parameters_[i].owned || bucket.frozen) continue;
    for (const ParameterPart& part : declared_[i].parts)
      for_each_inside(part, parameters_[i].range.begin, bucket.slice, [&](const Packed& packed) {
        if (!result.empty() && result.back().end() == packed.offset)
          result.back().count += packed.box.count();
        else
          result.push_back({packed.offset, packed.box.count()});
      });
  }
  return result;
}

}  // namespace trireme
