#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "trireme/kernels/device.h"
#include "trireme/kernels/gemm.h"
#include "trireme/kernels/kernels.h"

#include "launch/calibrate/measurements.h"
#include "runtime/core/round_up.h"
#include "runtime/core/seconds_since.h"
#include "runtime/cost/planned_layout.h"

namespace trireme::calibrate {
namespace {

using cost::MeasuredProduct;

constexpr Index alignment = 4096;

double flops_of(const MeasuredProduct& product) {
  return 2.0 * static_cast<double>(product.m) * static_cast<double>(product.n) *
         static_cast<double>(product.k);
}

Gemm gemm_of(const MeasuredProduct& product) {
  Gemm gemm{};
  gemm.m = product.m;
  gemm.n = product.n;
  gemm.k = product.k;
  const bool gradient = product.kind == "TN";
  gemm.transpose_a = gradient ? Transpose::yes : Transpose::no;
  gemm.transpose_b = product.kind == "NT" ? Transpose::yes : Transpose::no;
  gemm.lda = gradient ? product.m : product.k;
  gemm.ldb = product.kind == "NT" ? product.k : product.n;
  gemm.ldc = product.n;
  gemm.dtype = product.dtype;
  gemm.result = gradient ? DType::f32 : product.dtype;
  gemm.write = gradient ? Write::add : Write::assign;
  return gemm;
}

/// Several sets of the matrices of a product, used in turn.
class Operands {
 public:
  Operands(Stream& stream, const MeasuredProduct& product, const Buffer& memory, Index most_sets)
      : gemm_(gemm_of(product)), memory_(memory) {
    const Index element = size_bytes(product.dtype);
    a_ = round_up(product.m * product.k * element, alignment);
    b_ = round_up(product.k * product.n * element, alignment);
    c_ = round_up(product.m * product.n * size_bytes(gemm_.result), alignment);
    workspace_ = round_up(gemm_workspace_bytes(stream.device().traits(), gemm_), alignment);
    sets_ = std::min(most_sets, (memory.bytes() - workspace_) / (a_ + b_ + c_));
  }
  bool fit() const { return sets_ > 0; }
  Gemm of(Index call) const {
    Gemm gemm = gemm_;
    std::byte* set = memory_.data() + workspace_ + call % sets_ * (a_ + b_ + c_);
    gemm.workspace = memory_.data();
    gemm.a = set;
    gemm.b = set + a_;
    gemm.c = set + a_ + b_;
    return gemm;
  }

 private:
  Gemm gemm_;
  const Buffer& memory_;
  Index a_ = 0, b_ = 0, c_ = 0, workspace_ = 0, sets_ = 0;
};

/// Of the device, and the same on all ranks.
Index bytes_to_use(const Context& context) {
  constexpr double most = 1 << 30, share = 0.1;
  const double free =
      share * static_cast<double>(context.device().free_bytes()) /
      (context.device().kind() == DeviceKind::cpu ? context.host().world().size() : 1);
  return static_cast<Index>(least_over_ranks(context.host(), std::min(most, free))) / alignment *
         alignment;
}

}  // namespace

Products usual_products(DType dtype) {
  Products all;
  for (const Index width : {256, 1024, 4096, 8192})
    for (const Index rows : {64, 512, 2048, 8192}) {
      all.push_back({rows, width, width, dtype, 0, "NT"});
      all.push_back({rows, width, width, dtype, 0, "NN"});
      all.push_back({width, width, rows, dtype, 0, "TN"});
    }
  std::stable_sort(all.begin(), all.end(), [](const MeasuredProduct& a, const MeasuredProduct& b) {
    return flops_of(a) < flops_of(b);
  });
  return all;
}

Products products_of_model(const TransformerConfig& model, DType dtype, const DeviceTraits& device,
                           int most_tensor_ranks) {
  TransformerConfig shallow = model;
  shallow.num_layers = 1;
  cost::LayoutPlanner planner(cost::transformer_models(shallow), device);
  std::map<std::tuple<Index, Index, Index>, double> flops;  // of a shape
  for (int tensor = 1; tensor <= most_tensor_ranks; tensor *= 2)
    for (const Index micro_batch : {1, 2, 4}) {
      if (!problems_of(shallow, tensor, micro_batch).empty()) continue;
      cost::Candidate candidate;
      candidate.spec.mesh = MeshShape(1, 1, tensor);
      candidate.spec.micro_batch_size = candidate.spec.global_batch_size = micro_batch;
      candidate.spec.compute = dtype;
      const cost::PlannedLayout planned = planner.plan(candidate);
      for (const Plan& chunk : planned.stages.front()->train.model().chunks)
        for (const StepWork& work : chunk.work())
          for (const ProductWork& product : work.parts.products)
            flops[{product.m, product.n, product.k}] += product.flops();
    }
  Products all;
  for (const auto& [shape, sum] : flops) {
    const auto [m, n, k] = shape;
    for (const char* kind : {"NT", "NN", "TN"}) all.push_back({m, n, k, dtype, sum, kind});
  }
  std::stable_sort(all.begin(), all.end(), [](const MeasuredProduct& a, const MeasuredProduct& b) {
    return a.flops_per_s > b.flops_per_s;
  });
  return all;
}

Products measure_products(const Context& context, Timer& timer, const Products& products,
                          double budget_s) {
  constexpr double longest_s = 0.25;  // of a product
  constexpr double passes = 2, least_repeats = 3;
  const Buffer memory = context.device().allocate(bytes_to_use(context));
  fill_for_timing(context.stream(), memory.data(), memory.bytes());
  const double start = steady_seconds();
  const auto passed_s = [&] { return mean_over_ranks(context.host(), seconds_since(start)); };
  const auto rate = [&](const MeasuredProduct& product) {  // 0: too much memory
    const double each_s = budget_s / passes / static_cast<double>(products.size());
    const auto call = product_call(context.stream(), product, memory);
    if (least_over_ranks(context.host(), call ? 1 : 0) == 0) return 0.0;
    return flops_of(product) / timer(call, each_s, least_repeats);
  };
  double best = 0;  // FLOP/s
  Products measured;
  for (const MeasuredProduct& product : products) {
    if (passed_s() > budget_s / passes && !measured.empty()) break;
    if (best > 0 && flops_of(product) / best > longest_s) continue;
    const double found = rate(product);
    if (found == 0) continue;
    measured.push_back(product);
    measured.back().flops_per_s = found;
    best = std::max(best, found);
  }
  // Again, some seconds later: what else runs on a machine for a while makes products slower, and
  // none faster.
  for (MeasuredProduct& product : measured) {
    if (passed_s() > budget_s) break;
    product.flops_per_s = std::max(product.flops_per_s, rate(product));
  }
  return measured;
}

std::function<void(Index call)> product_call(Stream& stream, const MeasuredProduct& product,
                                             const Buffer& memory) {
  constexpr Index most_sets = 16;
  const Operands operands(stream, product, memory, most_sets);
  if (!operands.fit()) return {};
  return [&stream, operands](Index call) { stream.kernels().gemm.run(stream, operands.of(call)); };
}

void fit_product_model(cost::Profile& profile) {
  for (const MeasuredProduct& product : profile.products) {
    double& peak = product.dtype == DType::bf16 ? profile.peak_bf16 : profile.peak_f32;
    peak = std::max(peak, product.flops_per_s);
  }
  // peak / rate = (1 + half_k / k) / efficiency, as a line over 1 / k.
  double n = 0, x = 0, xx = 0, y = 0, xy = 0;
  for (const MeasuredProduct& product : profile.products) {
    const double inverse = 1 / static_cast<double>(product.k);
    const double slowness = profile.peak(product.dtype) / product.flops_per_s;
    n += 1;
    x += inverse;
    xx += inverse * inverse;
    y += slowness;
    xy += inverse * slowness;
  }
  const double determinant = n * xx - x * x;
  const double slope = determinant > 0 ? std::max(0.0, (n * xy - x * y) / determinant) : 0;
  const double at_infinity = (y - slope * x) / n;
  // The best product that was measured is not infinitely deep: its rate is less than the limit.
  constexpr double least = 0.5;
  profile.efficiency = 1 / std::max(least, at_infinity);
  profile.half_k = slope * profile.efficiency;
}

}  // namespace trireme::calibrate
