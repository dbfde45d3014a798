// WriteCheck, for --check-finite: checks that an op writes all of its outputs, and nothing past
// them.
#pragma once

#include <array>
#include <vector>

#include "runtime/graph/exec.h"
#include "runtime/graph/plan/plan_state.h"

namespace trireme::graph {

/// Fills `to` with repeated copies of `pattern`.
void fill(Stream& stream, std::byte* to, Index bytes, const std::vector<std::byte>& pattern);

class WriteCheck {
 public:
  /// Borrows all of them. Without PlanOptions::guard nothing lies behind memory that could be
  /// watched.
  WriteCheck(const Plan::State& plan, std::byte* scratch, Stream& stream);

  /// What the op of `step` has to write becomes NaN, unless the op reads what lies there; what lies
  /// behind, a pattern.
  void before(const Step& step, const StepExec& exec, std::byte* slot);
  /// Waits for the stream. Returns which output the op has overrun: "output 0". Empty: none.
  std::string written_behind(const Step& step, std::byte* slot);

 private:
  std::byte* behind(const Operand& operand, std::byte* slot) const;
  void forget(const Tensor& tensor, const std::vector<const Tensor*>& read);

  const Plan::State& plan_;
  std::byte* scratch_;
  Stream& stream_;
  std::vector<std::byte> nan_;
  std::vector<std::byte> guard_;
};

}  // namespace trireme::graph
