#include "runtime/layouts/search/layout_text.h"

#include <fmt/format.h>

#include "trireme/core/error.h"
#include "trireme/core/named_values.h"

#include "runtime/core/parse_number.h"

namespace trireme::layouts {
namespace {

constexpr Index most = Index{1} << 30;
constexpr const char* words =
    "tp, pp, v, dp, mb, zero, sp and chunks with a number, recompute and schedule with a name";

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == ' ' || c == '=' || c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  std::erase(parts, "");
  return parts;
}

template <class E>
std::optional<E> named(const std::string& word) {
  for (const auto& [text, value] : named_values<E>())
    if (text == word) return value;
  return std::nullopt;
}

template <class E>
E need_named(const std::string& key, const std::string& word) {
  if (const auto value = named<E>(word)) return *value;
  std::string all;
  for (const auto& [text, value] : named_values<E>())
    all += (all.empty() ? "" : ", ") + std::string(text);
  throw Error(str("'", key, " ", word, "': expected one of ", all));
}

bool fits(const std::optional<Index>& pin, Index value) { return !pin || *pin == value; }

std::optional<Index>* number_of(LayoutPins& pins, const std::string& key) {
  std::optional<Index>* found = nullptr;
  for_each_word([&](const char* word, auto /*value*/, auto pin) {
    if constexpr (std::is_same_v<decltype(pin), std::optional<Index> LayoutPins::*>)
      if (key == word) found = &(pins.*pin);
  });
  return found;
}

Index parse_value(const std::string& key, const std::string& word) {
  const Index least = key == "zero" || key == "sp" ? 0 : 1;
  const Index largest = key == "zero" || key == "sp" ? 1 : most;
  const auto value = parse_number<Index>(word);
  require(value && *value >= least && *value <= largest, "'", key, " ", word,
          "': expected a whole number from ", least, " to ", largest);
  return *value;
}

}  // namespace

std::string describe(const Layout& layout) {
  std::string text = fmt::format("tp {}  pp {}", layout.tensor, layout.pipeline);
  if (layout.chunks > 1) text += fmt::format("  v {}", layout.chunks);
  text += fmt::format("  dp {}  mb {}", layout.data, layout.micro_batch);
  const bool usual = layout.schedule ==
                     (layout.chunks > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b);
  if (!usual) text += fmt::format("  {}", name(layout.schedule));
  if (layout.recompute != RecomputeGranularity::none)
    text += fmt::format("  {}", name(layout.recompute));
  if (layout.data > 1 && !layout.sharded) text += "  zero 0";
  if (layout.tensor > 1 && !layout.sequence_parallel) text += "  sp 0";
  if (layout.head_chunks > 1) text += fmt::format("  chunks {}", layout.head_chunks);
  return text;
}

bool LayoutPins::empty() const {
  bool any = false;
  for_each_word([&](const char* /*word*/, auto /*value*/, auto pin) { any |= bool(this->*pin); });
  return !any;
}

bool LayoutPins::match(const Layout& layout) const {
  return fits(tensor, layout.tensor) && fits(pipeline, layout.pipeline) &&
         fits(chunks, layout.chunks) && fits(data, layout.data) &&
         fits(micro_batch, layout.micro_batch) &&
         (layout.data == 1 || fits(sharded, layout.sharded ? 1 : 0)) &&
         (layout.tensor == 1 || fits(sequence_parallel, layout.sequence_parallel ? 1 : 0)) &&
         fits(head_chunks, layout.head_chunks) && (!schedule || *schedule == layout.schedule) &&
         (!recompute || *recompute == layout.recompute);
}

LayoutPins parse_pins(const std::string& text, LayoutPins pins) {
  const std::vector<std::string> parts = split(text);
  require(!parts.empty(), "no word of a layout is given; there are ", words);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string& key = parts[i];
    if (const auto alone = named<RecomputeGranularity>(key)) {
      pins.recompute = alone;
      continue;
    }
    if (const auto alone = named<ScheduleKind>(key)) {
      pins.schedule = alone;
      continue;
    }
    const bool is_name = key == "recompute" || key == "schedule";
    std::optional<Index>* number = number_of(pins, key);
    require(is_name || number != nullptr, "'", key, "' is no word of a layout; there are ", words);
    require(i + 1 < parts.size(), "'", key, "' needs a value");
    const std::string& value = parts[++i];
    if (key == "recompute")
      pins.recompute = need_named<RecomputeGranularity>(key, value);
    else if (key == "schedule")
      pins.schedule = need_named<ScheduleKind>(key, value);
    else
      *number = parse_value(key, value);
  }
  return pins;
}

}  // namespace trireme::layouts
