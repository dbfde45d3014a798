// Options of checkpoints: where and when to save, what to load, when to stop. Declared and checked
// with the other options of every program (options/options.h).
#pragma once

#include <string>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme {

struct CheckpointOptions {
  std::string save;                  // --save DIR; empty: never
  Index save_interval = 0;           // --save-interval, steps; 0: only at the end
  bool save_interval_auto = false;   // --save-interval auto: `trireme run` chooses
  double save_interval_seconds = 0;  // --save-interval-seconds; 0: not by time
  bool async_save = true;            // --no-async-save clears it
  Index save_buffer = 0;             // --save-buffer, bytes of each rank; 0: its whole share
  Index keep_last = 0;               // --keep-last; 0: all
  Index save_memory_interval = 0;    // --save-memory-interval, steps; 0: never
  bool save_memory_partner = false;  // --save-memory-partner
  std::string save_local;            // --save-local DIR; empty: no copies on local disks
  Index save_local_interval = 0;     // --save-local-interval; 0: 10 x save_memory_interval
  Index save_retain_interval = 0;    // --save-retain-interval; 0: none

  std::string load;                       // --load DIR; empty: start from scratch
  std::string load_hf;                    // --load-hf DIR: initial values; empty: drawn
  Index ckpt_step = -1;                   // --ckpt-step; -1: the newest good one
  std::vector<std::string> skip_samples;  // --skip-samples: "4792-4799", of the data order
  bool finetune = false;                  // --finetune: weights only, from step 0
  bool load_optimizer = true;             // --no-load-optim clears it
  bool exit_on_missing_checkpoint = false;
  bool use_checkpoint_args = false;

  double exit_duration_seconds = 0;  // --exit-duration-seconds; 0: no limit
};

}  // namespace trireme
