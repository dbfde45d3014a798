#include "runtime/job/gemm_peak.h"

#include <algorithm>

#include <unistd.h>

#include "trireme/comm/agree.h"
#include "trireme/kernels/device.h"

#include "runtime/core/json.h"
#include "runtime/store/file.h"

namespace trireme {
namespace {

constexpr Index limit_bytes = 1 << 20;

std::string path_of(const Context& context) {
  const std::string& save = context.options().checkpoint.save;
  return save.empty() ? "" : save + "/gemm_peak.json";
}

/// What distinguishes rates of one run, whose ranks may have devices of several kinds: the model
/// and what it computes with. The last part of a description is free memory, which changes.
std::string kind_of(const Context& context) {
  std::string device = context.device().describe();
  device.resize(std::min(device.size(), device.rfind(", ")));
  return str(device, ", ", name(context.options().compute()));
}

/// Collective. Rank 0 reads: one reader of a shared file system is enough.
GemmRates stored_rates(const Context& context) {
  std::string text;
  if (context.host().rank() == 0 && !path_of(context).empty()) try {
      text = read_whole(path_of(context), limit_bytes);
    } catch (const Error&) {  // measured again
    }
  return parse_gemm_rates(broadcast_text(context.host(), text));
}

/// Whole or not at all: a job may be killed while it writes.
void store(const GemmRates& rates, const std::string& path) {
  const std::string fresh = path + ".new";
  remove_file(fresh);
  write_whole(fresh, to_text(rates));
  rename_path(fresh, path);
}

/// FLOP/s; 0 where memory is too short to measure.
double measured_rate(const Context& context) {
  try {
    return measure_gemm_flops(context.stream(), context.options().compute());
  } catch (const Error&) {
    return 0;
  }
}

/// Collective. Each rank measures a kind that `rates` lacks; of one kind the best rank counts.
void measure_missing(const Context& context, GemmRates& rates) {
  const std::string kind = kind_of(context);
  Index missing = rates.contains(kind) ? 0 : 1;
  const bool measures = missing != 0;
  context.host().all_reduce({&missing, 1, DType::i64}, Reduction::sum);
  if (missing == 0) return;
  GemmRates mine;
  if (measures) mine[kind] = measured_rate(context);
  for (const std::string& text : gather_strings(context.host(), to_text(mine)))
    for (const auto& [other, rate] : parse_gemm_rates(text))
      rates[other] = std::max(rates[other], rate);
  if (context.host().rank() != 0 || path_of(context).empty()) return;
  try {
    store(rates, path_of(context));
  } catch (const Error& error) {
    context.log().warning(str("the measured GEMM peak is not kept: ", error.what()));
  }
}

/// Of the rate of a device that it may use alone: on a CPU this rank's part of the cores, where
/// they are fewer than threads; of a GPU its part.
double share_of_device(const Context& context, int node_ranks) {
  if (context.device().kind() == DeviceKind::cuda)
    return 1.0 / static_cast<double>(context.options().ranks_per_gpu);
  const auto node_threads = static_cast<double>(node_ranks * context.options().threads_per_rank);
  const auto cores = static_cast<double>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  return std::min(1.0, cores / node_threads);
}

}  // namespace

std::string to_text(const GemmRates& rates) {
  Json::Object members;
  for (const auto& [kind, rate] : rates) members.emplace_back(kind, rate);
  return to_text(Json(std::move(members))) + "\n";
}

GemmRates parse_gemm_rates(const std::string& text) {
  GemmRates rates;
  try {
    const Json json = parse_json(text);
    for (const auto& [kind, value] : std::get<Json::Object>(json.value))
      if (const double rate = std::get<double>(value.value); rate > 0) rates[kind] = rate;
  } catch (const std::exception&) {
    return {};
  }
  return rates;
}

double gemm_peak_of_all_ranks(const Context& context, int node_ranks) {
  GemmRates rates = stored_rates(context);
  measure_missing(context, rates);
  const auto rate = rates.find(kind_of(context));
  double peak = rate == rates.end() ? 0 : rate->second * share_of_device(context, node_ranks);
  context.host().all_reduce({&peak, 1, DType::f64}, Reduction::sum);
  return peak;
}

}  // namespace trireme
