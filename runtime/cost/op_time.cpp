#include "runtime/cost/op_time.h"

#include <algorithm>
#include <cmath>

namespace trireme::cost {
namespace {

double modelled_rate(const Profile& profile, DType dtype, Index k) {
  const auto depth = static_cast<double>(k);
  return profile.efficiency * profile.peak(dtype) * depth / (depth + profile.half_k);
}

/// Distance of two shapes in doublings, squared.
double distance(const ProductWork& work, const MeasuredProduct& known) {
  const auto doublings = [](Index a, Index b) {
    return std::log2(static_cast<double>(a) / static_cast<double>(b));
  };
  return std::pow(doublings(work.m, known.m), 2) + std::pow(doublings(work.n, known.n), 2) +
         std::pow(doublings(work.k, known.k), 2);
}

/// What was measured over what the model says, of the shapes around this one: the nearer the more
/// it counts, a shape that was measured alone, by the mean of its kinds. So far from all of them
/// the model's form remains.
double correction(const ProductWork& work, const Profile& profile) {
  double weights = 0, sum = 0, kinds = 0, sum_of_kinds = 0;
  for (const MeasuredProduct& known : profile.products) {
    if (known.dtype != work.dtype) continue;
    const double ratio = std::log(known.flops_per_s / modelled_rate(profile, known.dtype, known.k));
    const double away = distance(work, known);
    if (away == 0) {
      kinds += 1;
      sum_of_kinds += ratio;
      continue;
    }
    const double weight = 1 / (away * away);
    weights += weight;
    sum += weight * ratio;
  }
  if (kinds > 0) return std::exp(sum_of_kinds / kinds);
  return weights == 0 ? 1 : std::exp(sum / weights);
}

/// What a GPU's kernels that keep no scores reach of their rate for long sequences and heads of
/// 128. Exponentials: a multiprocessor computes 16 while its fp32 lanes compute 2 FLOPs each; they
/// take the time of the products of `equal` columns of a head. Blocks of 128 x 128 scores on the
/// diagonal are computed whole, and half of them is in no count of FLOPs.
double share_of_shape(const AttentionWork& work, const Profile& profile) {
  if (profile.is_cpu()) return 1;
  constexpr double widest = 128, block = 128;
  const double lanes = profile.device.capability == 80 ? 64 : 128;
  const double equal = lanes / 32 * profile.peak(work.dtype) / profile.peak_f32;
  const double head = std::min(static_cast<double>(work.head_dim), widest);
  const auto sequence = static_cast<double>(work.sequence);
  return head / (head + equal) * (widest + equal) / widest * (sequence + 1) /
         (sequence + std::min(sequence, block));
}

/// FLOP/s: of what was measured, that which is nearest in length and size of heads.
double attention_rate(const AttentionWork& work, bool backward, const Profile& profile) {
  const auto doublings = [](Index a, Index b) {
    return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
  };
  const MeasuredAttention* best = nullptr;
  const auto away = [&](const MeasuredAttention& known) {
    return doublings(work.sequence, known.sequence) + doublings(work.head_dim, known.head_dim);
  };
  for (const MeasuredAttention& known : profile.attentions)
    if (known.dtype == work.dtype && known.backward == backward &&
        (best == nullptr || away(known) < away(*best)))
      best = &known;
  if (best != nullptr) return best->flops_per_s;
  return (backward ? profile.attention_backward : profile.attention_forward) *
         profile.peak(work.dtype) * share_of_shape(work, profile);
}

}  // namespace

OpTime& OpTime::operator+=(const OpTime& other) {
  products += other.products;
  attention += other.attention;
  memory_bound += other.memory_bound;
  tensor_traffic += other.tensor_traffic;
  host += other.host;
  return *this;
}

OpTime OpTime::operator*(double times) const {
  return {products * times, attention * times, memory_bound * times, tensor_traffic * times,
          host * times};
}

double product_time(const ProductWork& work, const Profile& profile) {
  if (work.flops() == 0) return 0;
  const double rate = modelled_rate(profile, work.dtype, work.k) * correction(work, profile);
  return std::max(work.flops() / rate, work.bytes() / profile.bytes_per_s);
}

OpTime op_time(const StepWork& work, const Profile& profile, const Group& tensor,
               const Network& network) {
  OpTime time;
  if (work.idle) return time;
  const bool backward = work.phase == StepWork::Phase::backward;
  Index queued = 0;
  for (const ProductWork& product : work.parts.products) {
    time.products += product_time(product, profile);
    queued += product.count;
  }
  for (const AttentionWork& attention : work.parts.attention) {
    time.attention += std::max(attention.flops / attention_rate(attention, backward, profile),
                               work.bytes / profile.bytes_per_s);
    ++queued;
  }
  for (const CollectiveWork& collective : work.parts.collectives) {
    time.tensor_traffic += collective_time(collective, tensor, profile, network);
    ++queued;
  }
  time.memory_bound = work.loop_bytes() / profile.loop_rate(work.op, backward);
  time.host = static_cast<double>(std::max<Index>(queued, 1)) * profile.op_seconds;
  return time;
}

}  // namespace trireme::cost
