// A model directory of Hugging Face as a committed step of a run, without ranks.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <string>

#include "runtime/interop/model_files.h"
#include "runtime/store/manifest.h"

namespace trireme::interop {

struct ImportOptions {
  int threads = 1;
  Index shard_bytes = Index{256} << 20;  // about so much per shard, at least a row
  std::function<void(Index done, Index total)> progress = {};  // bytes of the model as f32
};

/// Commits the tensors of `model` as step 0 of the directory `run`, which has no step yet, with
/// what is kept of the model beside it. `head`: all of the manifest but files and tensors. Takes
/// memory for a shard, 16 MiB, and for each thread what read_rectangles() takes, whatever the
/// model. Throws: Error; there is then no step.
void import_model(const ModelFiles& model, const std::string& run, Manifest head,
                  const ImportOptions& options);

}  // namespace trireme::interop
