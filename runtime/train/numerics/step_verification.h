// StepVerification: every N-th step is computed twice from one state, and the bits of both times
// compared (--verify-step). What ranks do when they differ: agree, record, say who computed
// wrongly.
#pragma once

#include <string>

#include "trireme/job/run.h"

#include "runtime/optim/step_hashes.h"

namespace trireme::train {

class StepVerification {
 public:
  /// `hashes`: null where no step is computed twice.
  StepVerification(const Context& context, const FlatLayout& flat, StepHashes* hashes)
      : context_(context), flat_(flat), hashes_(hashes) {}

  /// Decides whether this step is computed twice; a step that is `profiled` is not.
  void begin(Index step, bool profiled) {
    twice_ = hashes_ != nullptr && !profiled && step % context_.options().verify_step == 0;
  }
  /// Null in a step that is computed once.
  StepHashes* hashes() const { return twice_ ? hashes_ : nullptr; }
  /// Collective, after the update of a step that was computed twice. Returns what is wrong, the
  /// same on every rank; empty: nothing. Allocates only where something is wrong.
  std::string check(Index step);
  /// The newest step whose bits were the same both times, as what is resumed from says.
  void resume_from(Index last_clean) { last_clean_ = last_clean; }
  /// The newest step whose bits were the same both times; -1: none was computed twice.
  Index last_clean() const { return last_clean_; }

 private:
  const Context& context_;
  const FlatLayout& flat_;
  StepHashes* hashes_;
  bool twice_ = false;
  Index last_clean_ = -1;
};

}  // namespace trireme::train
