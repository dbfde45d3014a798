// The steps of the crash tests: their state holds one value that distinguishes them.
#pragma once

#include <cstring>
#include <map>
#include <set>
#include <string>

#include "runtime/store/file.h"
#include "runtime/store/read/reader.h"
#include "runtime/store/steps.h"
#include "runtime/store/tiers/slots.h"
#include "tests/support/toy_checkpoint.h"

namespace trireme::test {

using Values = std::map<Index, float>;
/// What checkpoint_tool exits with after an error.
inline constexpr int failed = 3;

inline constexpr const char* toy_run = "toy";  // what write_toy calls it
inline constexpr const char* told_apart_by = "parameters/h.0.bias";

inline ToyState state_of(float value) {
  ToyState state;
  state[told_apart_by].at<float>(0) = value;
  return state;
}

/// What recovery finds: the value of each committed step. Throws: Error when one of them is not
/// whole.
inline Values values_of(const std::string& root) {
  Values values;
  for (const CommittedStep& step : list_steps(root)) {
    const Manifest manifest = read_manifest(step.path);
    for (const std::string& problem : verify_step(step.path, manifest, 1)) throw Error(problem);
    const Shape global = manifest.find(told_apart_by)->global;
    std::vector<float> values_here(static_cast<std::size_t>(global.count()));
    read_boxes(step.path, manifest,
               {{told_apart_by, DType::f32, global, whole_box(global), values_here.data()}}, 1);
    values[step.step] = values_here[0];
  }
  return values;
}

inline constexpr Index snapshot_bytes = 5000;

/// Fills a slot with the number of the step.
inline void make_snapshot(const std::string& directory, Index step, int slot) {
  store::Slots slots(directory, 0, snapshot_bytes);
  slots.reserve();
  slots.begin(slot);
  std::memset(slots.memory(slot), static_cast<int>(step), snapshot_bytes);
  slots.finish(slot, {step, toy_run, 0, 1, {}, {checksum(slots.memory(slot), snapshot_bytes)}});
  slots.confirm(slot);
}

/// The steps of snapshots whose headers are there. Throws: Error when one of them is not whole.
inline std::set<Index> snapshots_in(const std::string& directory) {
  const store::Slots slots(directory, 0, snapshot_bytes);
  std::set<Index> steps;
  for (int slot = 0; slot < store::Slots::count; ++slot) {
    const auto header = slots.header(slot);
    if (!header) continue;
    const std::string shard = read_whole(directory + "/" + slots.shard(slot), snapshot_bytes);
    require(shard == std::string(snapshot_bytes, static_cast<char>(header->step)) &&
                header->blocks.front() == checksum(shard.data(), snapshot_bytes),
            slots.shard(slot), " is not step ", header->step);
    steps.insert(header->step);
  }
  return steps;
}

}  // namespace trireme::test
