// Jobs on emulated GPUs that fail, whose clean-up never ends.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "tests/support/checkpoint_jobs.h"
#include "tests/support/gpu_layouts.h"
#include "tests/support/process.h"

namespace trireme::test {

class GpuFailures : public testing::Test {
 protected:
  /// Each rank begins with `each`, a line of shell. NCCL's abort never returns, as when a kernel or
  /// a peer is stuck.
  Outcome train(const Layout& layout, const std::string& options, const std::string& each) {
    const std::string program = jobs_.training(layout, options);
    const std::size_t at = program.find(TRIREME_BIN_DIR);
    return jobs_.run(on_emulated_gpus({"lazy", "forward"}) + program.substr(0, at) + "sh -c '" +
                     "export EMULATION_ABORT=hangs; " + each + "; exec " + program.substr(at) +
                     "'");
  }
  CheckpointJobs jobs_{gpu_gpt +
                       "--num-layers 2 --hidden-size 32 --ffn-hidden-size 96 "
                       "--seq-length 32 --device cuda --train-iters 3 "};
};

}  // namespace trireme::test
