// Which layouts there are for a model on so many GPUs. They are enumerated from divisors; whether
// one is legal is asked from the checks of train_gpt.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "runtime/layouts/search/training_task.h"

namespace trireme::layouts {

/// Equal GPUs.
struct GpuCount {
  int gpus = 1, per_node = 1;
};

struct IllegalLayout {
  Layout layout;
  std::string problem;  // the first one
};

struct LayoutList {
  std::vector<Layout> legal;
  std::vector<IllegalLayout> illegal;  // one for each split of the GPUs that has no legal layout
};

/// All legal layouts that match `pins`. Tensor groups are inside a node, unless pinned. A
/// micro-batch is at most 64 samples, and 131,072 tokens if it is more than one sample, unless
/// pinned. `gpipe` is left out: 1f1b has its bubble and needs less memory.
LayoutList list_layouts(const TrainingTask& task, const GpuCount& count, const LayoutPins& pins);

/// The divisors of `value` that are at most `most`, in order.
std::vector<int> divisors_of(Index value, Index most);
/// Samples of a micro-batch that list_layouts() tries, of so many that a data rank has.
std::vector<int> micro_batches_of_samples(const TrainingTask& task, Index samples);
/// Pieces of the head that it tries.
std::vector<int> head_chunks_of(const TrainingTask& task, Index micro_batch);

}  // namespace trireme::layouts
