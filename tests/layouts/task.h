// A model of a few layers, and GPUs, that tests of the planner share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/layouts/search/cluster.h"
#include "runtime/layouts/search/training_task.h"

namespace trireme::layouts {

/// tiny: 4 layers, width 128, 4 heads, sequence 128.
inline std::unique_ptr<TrainingTask> task_of(std::vector<std::string> words) {
  Problems problems;
  auto task = std::make_unique<TrainingTask>(words, problems);
  for (const std::string& problem : problems.all()) throw Error(problem);
  return task;
}
inline std::unique_ptr<TrainingTask> tiny_task(const std::string& batch = "32") {
  return task_of({"--model", "tiny", "--global-batch-size", batch});
}

inline GpuGroup group_of(const std::string& text) { return read_cluster(text).groups.front(); }

}  // namespace trireme::layouts
