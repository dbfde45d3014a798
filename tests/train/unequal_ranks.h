// Jobs on ranks as threads, for tests of shares of data ranks: a fit that may resume, and what is
// planned for a layout without ranks.
#pragma once

#include <vector>

#include "runtime/train/layout/layout_report.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/training_run.h"
#include "tests/train/sines.h"

namespace trireme {

/// Trains to step `last` in a directory of checkpoints. The loss of each step so far.
inline std::vector<double> losses_of_fit(const ScratchDirectory& folder, const Layout& layout,
                                         Options options, Index last, const Model& model,
                                         const ThreadTransport& transport = {}) {
  options.train_iters = last;
  options.checkpoint.save = options.checkpoint.load = folder / "run";
  options.metrics = folder / "metrics";
  on_ranks(
      layout, options,
      [&](Context& context) {
        Trainer trainer(context, model);
        Sines data;
        trainer.fit(data);
      },
      transport);
  std::vector<double> losses;
  for (const test::StepLine& step : test::read_steps(options.metrics)) losses.push_back(step.loss);
  return losses;
}

/// What --check-layout finds, or if it `describes`, --plan-only.
inline LayoutChecked checked_layout(const Layout& layout, Options options, const Model& model,
                                    bool describes) {
  options.plan_only = describes;
  LayoutChecked checked;
  on_ranks(layout, options, [&](Context& context) {
    if (context.mesh().rank() == 0) checked = train::check_layout(context, model);
  });
  return checked;
}

}  // namespace trireme
