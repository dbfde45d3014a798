#include "trireme/train/evaluation.h"

#include <fmt/format.h>

namespace trireme {
namespace {

/// Collective. Only rank 0 has a file.
std::unique_ptr<MetricsFile> open_metrics(const Context& context) {
  const bool writes = context.mesh().rank() == 0;
  std::unique_ptr<MetricsFile> file;
  Problems problems;
  problems.collect(
      [&] { file = std::make_unique<MetricsFile>(writes ? context.options().metrics : ""); });
  agree_on(context.host(), problems);
  return file;
}

Index batches_of(const TokenSweep& source, const Options& options) {
  return (source.samples() + options.global_batch_size - 1) / options.global_batch_size;
}

/// Means over the parts by their weights.
EvaluationMetrics blend_of(std::span<const EvaluationMetrics> parts,
                           std::span<const SweptPart> sources) {
  EvaluationMetrics blend{parts.front().step, "blend"};
  double weights = 0, bytes = 0;
  bool knows_bytes = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double weight = sources[i].path.weight;
    blend.targets += parts[i].targets;
    blend.loss += weight * parts[i].loss;
    bytes += weight * parts[i].bytes_per_target.value_or(0);
    knows_bytes = knows_bytes && parts[i].bytes_per_target;
    weights += weight;
  }
  blend.loss /= weights;
  if (knows_bytes) blend.bytes_per_target = bytes / weights;
  return blend;
}

}  // namespace

std::vector<EvaluationMetrics> evaluate_parts(Context& context, Trainer& trainer,
                                              std::span<const SweptPart> parts) {
  require(!parts.empty(), "evaluate_parts was given no data");
  const std::unique_ptr<MetricsFile> file = open_metrics(context);
  std::vector<EvaluationMetrics> all;
  const auto add = [&](EvaluationMetrics found, const std::string& of) {
    context.log().result(str(of, ": ", found.describe(), ", over ", found.targets, " targets"));
    agree_or_stop(context.host(), [&] { file->append(found); });
    all.push_back(std::move(found));
  };
  for (const SweptPart& part : parts) {
    const double loss = trainer.evaluate(*part.source, batches_of(*part.source, context.options()));
    add({trainer.steps_done(), part.path.prefix, part.source->targets(), loss,
         part.source->bytes_per_target()},
        part.path.prefix);
  }
  if (parts.size() > 1)
    add(blend_of(all, parts), fmt::format("the blend of {} files by their weights", parts.size()));
  return all;
}

}  // namespace trireme
