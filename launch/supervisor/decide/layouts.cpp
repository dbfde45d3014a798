#include "launch/supervisor/decide/layouts.h"

#include <algorithm>
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
      if (const Json* options = json.find("configuration"))
        layout.planned = member<std::string>(*options, "--plan") == "auto";
      const auto problems = member<Json::Array>(json, "problems");
      const auto* first = problems.empty() ? nullptr : std::get_if<std::string>(&problems[0].value);
      layout.problem = first == nullptr ? "" : *first;
      const bool sound = !layout.legal || layout.data * layout.unit() == layout.ranks;
      if (layout.ranks > 0 && sound) layouts.push_back(layout);
    } catch (const Error&) {  // something else that the program prints
    }
  return layouts;
}

/// The first question that a call has is asked first.
void Layouts::ask(LayoutQuestion question) {
  if (!question_) question_ = std::move(question);
}

void Layouts::answer(const LayoutQuestion& question, const std::vector<Layout>& layouts) {
  std::size_t answered = layouts.empty() ? question.ranks.size() : 0;
  for (Layout layout : layouts) {
    layout.choice = question.choice;
    if (layout.legal && !layout.planned) units_[question.choice] = layout.unit();
    known_[{question.choice, layout.ranks}] = layout;
    const auto asked = std::find(question.ranks.begin(), question.ranks.end(), layout.ranks);
    answered = std::max(answered, static_cast<std::size_t>(asked - question.ranks.begin()) + 1);
  }
  for (std::size_t i = 0; i < std::min(answered + 1, question.ranks.size()); ++i)
    known_.emplace(std::pair(question.choice, question.ranks[i]), std::nullopt);
  question_.reset();
}

std::optional<Layout> Layouts::at(std::size_t choice, Index ranks) {
  if (const auto known = known_.find({choice, ranks}); known != known_.end()) return known->second;
  ask({choice, {ranks}});
  return std::nullopt;
}

std::optional<Layout> Layouts::largest_of(std::size_t choice, Index ranks) {
  constexpr std::size_t at_once = 16;  // the program checks one after the other
  const auto unit = units_.find(choice);
  const Index stride = unit == units_.end() ? 1 : unit->second;
  LayoutQuestion missing{choice, {}};
  for (Index next = ranks / stride * stride; next > 0 && missing.ranks.size() < at_once;
       next -= stride) {
    const auto known = known_.find({choice, next});
    if (known == known_.end()) {
      missing.ranks.push_back(next);
    } else if (known->second && known->second->legal) {
      if (missing.ranks.empty()) return known->second;
      break;
    }
  }
  if (!missing.ranks.empty()) ask(std::move(missing));
  return std::nullopt;
}

std::optional<Layout> Layouts::largest(Index ranks) {
  for (std::size_t choice = 0; choice < choices_; ++choice)
    if (const auto layout = largest_of(choice, ranks); layout || question_) return layout;
  return std::nullopt;
}

void Layouts::refuse(const Layout& layout) {
  known_[{layout.choice, layout.ranks}] = Layout{.ranks = layout.ranks, .choice = layout.choice};
}

}  // namespace trireme::supervisor
