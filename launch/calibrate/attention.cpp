#include "trireme/kernels/attention.h"

#include <algorithm>

#include "trireme/kernels/device.h"
#include "trireme/kernels/kernels.h"

#include "launch/calibrate/measurements.h"
#include "runtime/core/seconds_since.h"

namespace trireme::calibrate {
namespace {

/// Two products of sequence x sequence x head_dim, half of each masked away.
double forward_flops(const AttentionShape& shape) {
  return 2.0 * static_cast<double>(shape.batch * shape.query_heads * shape.head_dim) *
         static_cast<double>(shape.sequence * (shape.sequence + 1));
}
constexpr double backward_share = 2.5;  // five products

class Attention {
 public:
  Attention(Stream& stream, const AttentionShape& shape, DType dtype)
      : stream_(stream), shape_(shape), dtype_(dtype) {
    fill_for_timing(stream_, qkv_.data(), qkv_.bytes());
    fill_for_timing(stream_, dy_.data(), dy_.bytes());
  }
  void forward() {
    stream_.kernels().attention.forward(stream_,
                                        {.shape = shape_,
                                         .qkv = qkv_.data(),
                                         .y = y_.data(),
                                         .logsumexp = reinterpret_cast<float*>(logsumexp_.data()),
                                         .workspace = workspace_.data(),
                                         .dtype = dtype_});
  }
  void backward() {
    stream_.kernels().attention.backward(
        stream_, {.shape = shape_,
                  .qkv = qkv_.data(),
                  .y = y_.data(),
                  .logsumexp = reinterpret_cast<const float*>(logsumexp_.data()),
                  .dy = dy_.data(),
                  .dqkv = dqkv_.data(),
                  .workspace = workspace_.data(),
                  .dtype = dtype_});
  }

 private:
  Buffer buffer(Index elements, DType dtype) {
    return stream_.device().allocate(elements * size_bytes(dtype));
  }
  Index rows() const { return shape_.batch * shape_.sequence; }
  Index width() const { return shape_.query_heads * shape_.head_dim; }
  Index packed() const { return width() + 2 * shape_.kv_heads * shape_.head_dim; }
  Index workspace_bytes() const {
    const DeviceTraits& traits = stream_.device().traits();
    const AttentionChoice choice = AttentionChoice::automatic;
    return std::max(attention_forward_workspace_bytes(traits, shape_, dtype_, choice),
                    attention_backward_workspace_bytes(traits, shape_, dtype_, choice));
  }

  Stream& stream_;
  AttentionShape shape_;
  DType dtype_;
  Buffer qkv_ = buffer(rows() * packed(), dtype_), dqkv_ = buffer(rows() * packed(), dtype_),
         y_ = buffer(rows() * width(), dtype_), dy_ = buffer(rows() * width(), dtype_),
         logsumexp_ = buffer(rows() * shape_.query_heads, DType::f32),
         workspace_ = stream_.device().allocate(std::max<Index>(workspace_bytes(), 1));
};

}  // namespace

std::vector<AttentionCase> usual_attention() {
  std::vector<AttentionCase> all;
  constexpr Index heads = 4;
  for (const Index sequence : {256, 1024, 4096})
    for (const Index head_dim : {64, 128}) all.push_back({sequence, heads, heads, head_dim});
  return all;
}

void measure_attention(const Context& context, Timer& timer,
                       const std::vector<AttentionCase>& cases, double budget_s,
                       cost::Profile& profile) {
  constexpr Index tokens = 2048;  // in a call, at least
  const double start = steady_seconds();
  const double each_s = budget_s / static_cast<double>(2 * cases.size());
  const DType dtype = context.options().compute();
  for (const AttentionCase& one : cases) {
    const double passed = mean_over_ranks(context.host(), seconds_since(start));
    if (passed > budget_s && !profile.attentions.empty()) break;
    const AttentionShape shape{std::max<Index>(1, tokens / one.sequence), one.sequence,
                               one.query_heads, one.kv_heads, one.head_dim};
    Attention attention(context.stream(), shape, dtype);
    const double forward = timer([&](Index) { attention.forward(); }, each_s);
    const double backward = timer([&](Index) { attention.backward(); }, each_s);
    profile.attentions.push_back(
        {one.sequence, one.head_dim, false, dtype, forward_flops(shape) / forward});
    profile.attentions.push_back({one.sequence, one.head_dim, true, dtype,
                                  backward_share * forward_flops(shape) / backward});
  }
}

}  // namespace trireme::calibrate
