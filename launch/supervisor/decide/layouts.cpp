#include "launch/supervisor/decide/layouts.h"

#include <sstream>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/core/json.h"

namespace trireme::supervisor {
namespace {

template <class T>
T member(const Json& json, const char* key) {
  const Json* found = json.find(key);
  const T* typed = found == nullptr ? nullptr : std::get_if<T>(&found->value);
  return typed == nullptr ? T() : *typed;
}

}  // namespace

std::string Layout::text() const { return fmt::format("pp{} dp{} tp{}", pipeline, data, tensor); }

std::vector<Layout> parse_layouts(const std::string& lines) {
  std::vector<Layout> layouts;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) try {
      const Json json = parse_json(line);
      Layout layout;
      layout.ranks = member<Index>(json, "ranks");
      layout.legal = member<bool>(json, "legal");
      layout.data = member<Index>(json, "data");
      layout.pipeline = member<Index>(json, "pipeline");
      layout.tensor = member<Index>(json, "tensor");
      layout.rank_bytes = member<Index>(json, "rank_bytes");
      const auto problems = member<Json::Array>(json, "problems");
      const auto* first = problems.empty() ? nullptr : std::get_if<std::string>(&problems[0].value);
      layout.problem = first == nullptr ? "" : *first;
      const bool sound = !layout.legal || layout.data * layout.unit() == layout.ranks;
      if (layout.ranks > 0 && sound) layouts.push_back(layout);
    } catch (const Error&) {  // something else that the program prints
    }
  return layouts;
}

void Layouts::ask(std::size_t choice, const std::vector<Index>& ranks) {
  std::vector<Index> unknown;
  for (const Index count : ranks)
    if (known_.emplace(std::pair(choice, count), std::nullopt).second) unknown.push_back(count);
  if (unknown.empty()) return;
  for (Layout layout : check_(choice, unknown)) {
    layout.choice = choice;
    if (layout.legal) units_[choice] = layout.unit();
    known_[{choice, layout.ranks}] = layout;
  }
}

std::optional<Layout> Layouts::at(std::size_t choice, Index ranks) {
  ask(choice, {ranks});
  return known_[{choice, ranks}];
}

std::optional<Layout> Layouts::largest_of(std::size_t choice, Index ranks) {
  constexpr std::size_t at_once = 16;  // each is a process, one after the other
  for (Index next = ranks; next > 0;) {
    const auto unit = units_.find(choice);
    const Index stride = unit == units_.end() ? 1 : unit->second;
    std::vector<Index> counts;
    for (next = next / stride * stride; next > 0 && counts.size() < at_once; next -= stride)
      counts.push_back(next);
    ask(choice, counts);
    for (const Index count : counts)
      if (const auto& layout = known_[{choice, count}]; layout && layout->legal) return layout;
  }
  return std::nullopt;
}

std::optional<Layout> Layouts::largest(Index ranks) {
  for (std::size_t choice = 0; choice < choices_; ++choice)
    if (const auto layout = largest_of(choice, ranks)) return layout;
  return std::nullopt;
}

void Layouts::refuse(const Layout& layout) {
  known_[{layout.choice, layout.ranks}] = Layout{.ranks = layout.ranks, .choice = layout.choice};
}

}  // namespace trireme::supervisor
