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

/// Mean over the parts by their weights.
EvaluationMetrics blend_of(std::span<const EvaluationMetrics> parts,
                           std::span<const SweptPart> sources) {
  EvaluationMetrics blend{parts.front().step, "blend"};
  double weights = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    blend.targets += parts[i].targets;
    blend.loss += sources[i].path.weight * parts[i].loss;
    weights += sources[i].path.weight;
  }
  blend.loss /= weights;
  return blend;
}

}  // namespace

std::vector<EvaluationMetrics> evaluate_parts(Context& context, Trainer& trainer,
                                              std::span<const SweptPart> parts) {
  require(!parts.empty(), "evaluate_parts was given no data");
  const std::unique_ptr<MetricsFile> file = open_metrics(context);
  std::vector<EvaluationMetrics> all;
  const auto add = [&](EvaluationMetrics found, const std::string& of) {
    context.log().info(fmt::format("{}: loss {:.7f}, perplexity {:.6g}, over {} targets", of,
                                   found.loss, found.perplexity(), found.targets));
    agree_or_stop(context.host(), [&] { file->append(found); });
    all.push_back(std::move(found));
  };
  for (const SweptPart& part : parts) {
    const double loss = trainer.evaluate(*part.source, batches_of(*part.source, context.options()));
    add({trainer.steps_done(), part.path.prefix, part.source->targets(), loss}, part.path.prefix);
  }
  if (parts.size() > 1)
    add(blend_of(all, parts), fmt::format("the blend of {} files by their weights", parts.size()));
  return all;
}

}  // namespace trireme
