#include "runtime/layouts/search/candidates.h"

#include <algorithm>
#include <array>
#include <optional>

#include "trireme/pipeline/schedule.h"

namespace trireme::layouts {
namespace {

constexpr Index most_samples = 64, most_tokens = Index{1} << 17;
constexpr std::array<Index, 3> head_chunks = {1, 8, 32};

/// The pinned value in place of all others, even where it is none of them: the gate then says why
/// it is not legal.
std::vector<int> pinned(const std::optional<Index>& pin, std::vector<int> all) {
  if (!pin) return all;
  return {static_cast<int>(*pin)};
}

class Lister {
 public:
  Lister(const TrainingTask& task, const GpuCount& count, const LayoutPins& pins)
      : task_(task), count_(count), pins_(pins) {}

  LayoutList run() {
    for (const int tensor : pinned(pins_.tensor, divisors_of(count_.per_node, count_.per_node))) {
      if (count_.gpus % tensor != 0 && !pins_.tensor) continue;
      const Index left = std::max(1, count_.gpus / tensor);
      for (const int pipeline : pinned(pins_.pipeline, divisors_of(left, task_.model().num_layers)))
        split(tensor, pipeline);
    }
    return std::move(list_);
  }

 private:
  void split(int tensor, int pipeline) {
    Layout layout;
    layout.tensor = tensor;
    layout.pipeline = pipeline;
    layout.data = std::max(1, count_.gpus / tensor / pipeline);
    if (pins_.data && *pins_.data != layout.data) return;
    if (layout.ranks() != count_.gpus) return add_illegal(layout, layout_problem(layout));
    const std::size_t before = list_.legal.size();
    first_problem_.clear();
    for (const int chunks : pinned(pins_.chunks, chunks_of(pipeline)))
      for (const ScheduleKind schedule : schedules_of(pipeline, chunks))
        for (const int micro_batch : pinned(pins_.micro_batch, micro_batches_of(layout.data))) {
          layout.chunks = chunks;
          layout.schedule = schedule;
          layout.micro_batch = micro_batch;
          vary(layout);
        }
    if (list_.legal.size() == before && !first_problem_.empty())
      add_illegal(layout, first_problem_);
  }

  /// Of a split that does not use all GPUs: of a job of all of them.
  std::string layout_problem(const Layout& layout) const {
    return str("tp ", layout.tensor, " x pp ", layout.pipeline, " does not divide ", count_.gpus,
               " ranks");
  }

  void add_illegal(const Layout& layout, const std::string& problem) {
    list_.illegal.push_back({layout, problem});
  }

  std::vector<int> chunks_of(int pipeline) const {
    const Index layers = task_.model().num_layers;
    std::vector<int> all = {1};
    if (pipeline == 1 || layers % pipeline != 0) return all;
    for (const int chunks : divisors_of(layers / pipeline, layers))
      if (chunks > 1) all.push_back(chunks);
    return all;
  }

  std::vector<ScheduleKind> schedules_of(int pipeline, int chunks) const {
    if (pins_.schedule) return {*pins_.schedule};
    if (pipeline == 1) return {ScheduleKind::one_f_one_b};
    std::vector<ScheduleKind> all;
    for (const ScheduleKind kind : all_schedules())
      if (kind != ScheduleKind::gpipe && (chunks > 1 || kind != ScheduleKind::interleaved) &&
          (chunks == 1 || kind != ScheduleKind::one_f_one_b))
        all.push_back(kind);
    return all;
  }

  std::vector<int> micro_batches_of(int data) const {
    const Index batch = task_.options().global_batch_size;
    if (batch % data != 0) return {1};  // which the gate refuses
    return micro_batches_of_samples(task_, batch / data);
  }

  /// What does not depend on the mesh, once the gate lets the plainest layout pass.
  void vary(Layout layout) {
    for (const bool sequence_parallel : with_or_without(layout.tensor > 1)) {
      layout.sequence_parallel = sequence_parallel;
      if (!is_legal(layout)) continue;
      for (const bool sharded : with_or_without(layout.data > 1)) {
        layout.sharded = sharded;
        add(layout);
      }
    }
  }

  /// What is idle is left out.
  static std::vector<bool> with_or_without(bool possible) {
    return possible ? std::vector<bool>{true, false} : std::vector<bool>{false};
  }

  bool is_legal(const Layout& layout) {
    const std::vector<std::string> problems = task_.problems_of(layout);
    if (!problems.empty() && first_problem_.empty()) first_problem_ = problems.front();
    return problems.empty();
  }

  void add(Layout layout) {
    for (const int each : pinned(pins_.head_chunks, head_chunks_of(task_, layout.micro_batch))) {
      layout.head_chunks = each;
      for (const RecomputeGranularity recompute :
           {RecomputeGranularity::none, RecomputeGranularity::selective,
            RecomputeGranularity::full}) {
        layout.recompute = recompute;
        if (pins_.match(layout)) list_.legal.push_back(layout);
      }
    }
  }

  const TrainingTask& task_;
  const GpuCount& count_;
  const LayoutPins& pins_;
  LayoutList list_;
  std::string first_problem_;  // of the split at hand
};

}  // namespace

std::vector<int> divisors_of(Index value, Index most) {
  std::vector<int> all;
  for (Index i = 1; i <= std::min(value, most); ++i)
    if (value % i == 0) all.push_back(static_cast<int>(i));
  return all;
}

std::vector<int> micro_batches_of_samples(const TrainingTask& task, Index samples) {
  const Index most = std::clamp<Index>(most_tokens / task.model().seq_length, 1, most_samples);
  return divisors_of(samples, most);
}

std::vector<int> head_chunks_of(const TrainingTask& task, Index micro_batch) {
  const Index rows = micro_batch * task.model().seq_length;
  std::vector<int> chunks;
  for (const Index each : head_chunks)
    if (each <= rows) chunks.push_back(static_cast<int>(each));
  return chunks;
}

LayoutList list_layouts(const TrainingTask& task, const GpuCount& count, const LayoutPins& pins) {
  return Lister(task, count, pins).run();
}

}  // namespace trireme::layouts
