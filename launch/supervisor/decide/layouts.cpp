#include "launch/supervisor/decide/layouts.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/core/json/json_record.h"

namespace trireme::supervisor {
/// A line of --check-layout.
void describe(RecordOf<Layout> auto& layout, auto& member) {
  member("ranks", layout.ranks);
  member("legal", layout.legal);
  member.optional("data", layout.data);
  member.optional("pipeline", layout.pipeline);
  member.optional("tensor", layout.tensor);
  member.optional("rank_bytes", layout.rank_bytes);
  std::map<std::string, std::string> options;
  member.optional("configuration", options);
  layout.planned = options["--plan"] == "auto";
  std::vector<std::string> problems;
  member.optional("problems", problems);
  if (!problems.empty()) layout.problem = problems.front();
}

std::string Layout::text() const { return fmt::format("pp{} dp{} tp{}", pipeline, data, tensor); }

std::vector<Layout> parse_layouts(const std::string& lines) {
  std::vector<Layout> layouts = records_in<Layout>(lines);  // the program may print others
  std::erase_if(layouts, [](const Layout& each) {
    return each.ranks <= 0 || (each.legal && each.data * each.unit() != each.ranks);
  });
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
