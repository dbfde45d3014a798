// Layout: how a model is split and run, in the words of a user: "tp 4 pp 4 v 4 dp 4 mb 1
// selective". LayoutPins: some of these words, which a layout has to match.
//
// Not installed; modules above may include it.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "trireme/models/transformer_config.h"
#include "trireme/pipeline/schedule_kind.h"

namespace trireme::layouts {

struct Layout {
  int tensor = 1, pipeline = 1, chunks = 1, data = 1;
  Index micro_batch = 1;  // samples
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  RecomputeGranularity recompute = RecomputeGranularity::none;
  bool sharded = false;  // ZeRO-1
  bool sequence_parallel = false;
  Index head_chunks = 1;

  int ranks() const { return tensor * pipeline * data; }
  friend auto operator<=>(const Layout&, const Layout&) = default;
};

/// "tp 4  pp 4  v 4  dp 4  mb 1  selective": what is 1 or off is left out, but tp, pp and dp.
std::string describe(const Layout& layout);

/// A word for each; nothing: any value. zero matches every layout with one data rank, sp with one
/// tensor rank, where they are idle.
struct LayoutPins {
  std::optional<Index> tensor, pipeline, chunks, data, micro_batch, sharded, sequence_parallel,
      head_chunks;
  std::optional<ScheduleKind> schedule;
  std::optional<RecomputeGranularity> recompute;

  bool empty() const;
  bool match(const Layout& layout) const;
};

/// Calls `f` with each word, what it says of a layout, and of pins: ("tp", &Layout::tensor,
/// &LayoutPins::tensor).
template <class F>
void for_each_word(F&& f) {
  f("tp", &Layout::tensor, &LayoutPins::tensor);
  f("pp", &Layout::pipeline, &LayoutPins::pipeline);
  f("v", &Layout::chunks, &LayoutPins::chunks);
  f("dp", &Layout::data, &LayoutPins::data);
  f("schedule", &Layout::schedule, &LayoutPins::schedule);
  f("mb", &Layout::micro_batch, &LayoutPins::micro_batch);
  f("recompute", &Layout::recompute, &LayoutPins::recompute);
  f("sp", &Layout::sequence_parallel, &LayoutPins::sequence_parallel);
  f("zero", &Layout::sharded, &LayoutPins::sharded);
  f("chunks", &Layout::head_chunks, &LayoutPins::head_chunks);
}
/// A value of a layout as its option has it.
template <class T>
std::string option_value(T value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else if constexpr (std::is_enum_v<T>)
    return name(value);
  else
    return std::to_string(value);
}

/// "tp=8", "tp 8", "tp 8 pp 2 full", "tp=8,pp=2": tp, pp, v, dp, mb, zero, sp and chunks with a
/// number; schedule and recompute with a name, or none, selective or full alone. Throws: Error that
/// names the word and what there is.
LayoutPins parse_pins(const std::string& text, LayoutPins before = {});

}  // namespace trireme::layouts
