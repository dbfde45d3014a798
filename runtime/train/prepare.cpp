#include "runtime/train/prepare.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "trireme/comm/agree.h"
#include "trireme/kernels/device.h"

#include "runtime/core/seconds_since.h"

namespace trireme::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double seconds_between_lines = 5;

/// Whether this rank is counted: one rank per stage, because tensor and data ranks have the same
/// products.
bool counts(const Mesh& mesh) {
  return mesh.coordinate(Axis::tensor) == 0 && mesh.coordinate(Axis::data) == 0;
}

bool times_products(const Context& context) {
  return context.device().kind() == DeviceKind::cuda && !context.options().gemm_cache.empty();
}

/// Collective. The notes of all ranks, without duplicates.
void log_notes(const Context& context, const Preparation& mine) {
  std::vector<std::string> said;
  for (const std::vector<std::string>& notes : gather_lists(context.host(), mine.notes))
    for (const std::string& note : notes)
      if (std::find(said.begin(), said.end(), note) == said.end()) said.push_back(note);
  for (const std::string& note : said) context.log().info("matrix products: " + note);
}

/// Collective. `seconds`: duration on this rank.
void log_choices(const Context& context, const Preparation& mine, double seconds) {
  const bool counted = counts(context.mesh());
  Index sums[2] = {counted ? mine.timed : 0, counted ? mine.stored : 0};
  context.host().all_reduce({sums, 2, DType::i64}, Reduction::sum);
  const std::string& cache = context.options().gemm_cache;
  if (context.device().kind() != DeviceKind::cuda) return;
  context.log().info(
      cache.empty()
          ? fmt::format(
                "matrix products: cuBLASLt's first recommendations, each run once in {:.1f} "
                "s; --gemm-cache DIR takes the fastest",
                seconds)
          : fmt::format("matrix products: {} chosen by timing, {} as stored in {}; {:.1f} s",
                        sums[0], sums[1], cache, seconds));
}

}  // namespace

void prepare_passes(const Context& context, const std::vector<Pass*>& passes,
                    const std::vector<DeviceMemory>& memory) {
  Index calls = 0, done = 0;
  for (const Pass* pass : passes) calls += pass->preparations();

  Preparation preparation;
  if (times_products(context))  // on the memory as it is
    for (const DeviceMemory& part : memory)
      fill_for_timing(context.stream(), part.data, part.bytes);
  context.stream().synchronize();
  context.host().world().barrier();  // no collective is in flight while others time
  const Clock::time_point start = Clock::now();
  double next_line = seconds_between_lines;
  const auto after_each = [&] {
    ++done;
    if (seconds_since(start) < next_line) return;
    next_line += seconds_between_lines;
    context.log().info(
        fmt::format("matrix products: {} of {} calls prepared, {} chosen by timing, {:.0f} s", done,
                    calls, preparation.timed, seconds_since(start)));
  };
  agree_or_stop(context.host(), [&] {
    for (Pass* pass : passes) pass->prepare(preparation, after_each);
  });
  log_notes(context, preparation);
  log_choices(context, preparation, seconds_since(start));
}

}  // namespace trireme::train
