// The steps of the crash tests: their state holds one value that distinguishes them.
#pragma once

#include <map>
#include <string>

#include "runtime/store/read/reader.h"
#include "runtime/store/steps.h"
#include "tests/support/toy_checkpoint.h"

namespace trireme::test {

inline constexpr const char* toy_run = "toy";  // what write_toy calls it
inline constexpr const char* told_apart_by = "parameters/h.0.bias";

inline ToyState state_of(float value) {
  ToyState state;
  state[told_apart_by].at<float>(0) = value;
  return state;
}

/// What recovery finds: the value of each committed step. Throws: Error when one of them is not
/// whole.
inline std::map<Index, float> values_of(const std::string& root) {
  std::map<Index, float> values;
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

}  // namespace trireme::test
