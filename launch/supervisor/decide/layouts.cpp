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
void KnownLayouts::request(LayoutQuestion question) {
  if (!question_) question_ = std::move(question);
}

void KnownLayouts::answer(const LayoutQuestion& question, const std::vector<Layout>& layouts) {
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

std::optional<Layout> KnownLayouts::at(std::size_t choice, Index ranks) {
  if (const auto known = known_.find({choice, ranks}); known != known_.end()) return known->second;
  request({choice, {ranks}});
  return std::nullopt;
}

std::optional<Layout> KnownLayouts::largest_of(std::size_t choice, Index ranks) {
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
  if (!missing.ranks.empty()) request(std::move(missing));
  return std::nullopt;
}

std::optional<Layout> KnownLayouts::largest(Index ranks) {
  for (std::size_t choice = 0; choice < choices_; ++choice)
    if (const auto layout = largest_of(choice, ranks); layout || question_) return layout;
  return std::nullopt;
}

void KnownLayouts::refuse(const Layout& layout) {
  known_[{layout.choice, layout.ranks}] = Layout{.ranks = layout.ranks, .choice = layout.choice};
}

Layouts::Layouts(Session& session) : Part(session), known_(1 + settings_.also_layouts.size()) {}

bool Layouts::with(const std::function<void()>& use) {
  if (asked_) {
    const auto answer = asked_->poll();
    if (!answer) return false;
    known_.answer(asked_for_, *answer);
    asked_.reset();
  }
  known_.drop_question();
  use();
  if (!known_.question()) return true;
  asked_for_ = *known_.question();
  const std::vector<std::string> as_given;
  asked_ = launcher_.check_layouts(
      asked_for_.choice == 0 ? as_given : settings_.also_layouts[asked_for_.choice - 1],
      asked_for_.ranks);
  return false;
}

bool Layouts::await(const std::function<void()>& use) {
  while (!with(use))
    if (!session_.observe(most_wait_s)) {
      asked_.reset();
      return false;
    }
  return true;
}

std::string Layouts::why_not_elastic() {
  if (!settings_.elastic()) return "";
  const Index all = settings_.nodes * settings_.ranks_per_node;
  const Index few = settings_.min_nodes * settings_.ranks_per_node;
  const auto whole = known_.at(0, all);
  if (!whole)
    return fmt::format(
        "--min-nodes {}: {} gives no answer to --check-layout {}, as programs built on run() do",
        settings_.min_nodes, settings_.program, all);
  if (!whole->legal)
    return fmt::format("{} cannot run on {} rank{}: {}", settings_.program, all,
                       all == 1 ? "" : "s", whole->problem);
  for (std::size_t choice = 1; choice <= settings_.also_layouts.size(); ++choice)
    if (!known_.largest_of(choice, all)) {
      const auto asked = known_.at(choice, all);
      return fmt::format("--also-layout \"{}\": no number of ranks up to {} is legal: {}",
                         fmt::join(settings_.also_layouts[choice - 1], " "), all,
                         asked ? asked->problem : "the program gives no answer");
    }
  if (!known_.largest(few)) {
    const auto asked = known_.at(0, few);
    return fmt::format(
        "--min-nodes {}: no number of ranks up to {} is legal; give more --min-nodes, or "
        "--also-layout{}",
        settings_.min_nodes, few, asked ? ": " + asked->problem : "");
  }
  return "";
}

bool Layouts::choose(AttemptPlan& plan, const PickSome& pick_some) {
  const Index per_host = settings_.ranks_per_node;
  Index hosts = settings_.nodes;
  plan.fewer = plan.hosts.empty();
  while (plan.hosts.empty() && --hosts >= settings_.min_nodes) plan.hosts = pick_some(hosts);
  if (plan.hosts.empty()) return true;
  const auto layout =
      plan.fewer ? known_.largest(hosts * per_host) : known_.at(0, hosts * per_host);
  plan.hosts.clear();
  if (!layout) return false;
  plan.layout = *layout;
  plan.ranks = layout->ranks;
  plan.slots = per_host;
  plan.idle = hosts * per_host - plan.ranks;
  plan.options.clear();
  if (layout->choice > 0) plan.options = settings_.also_layouts[layout->choice - 1];
  plan.hosts = pick_some((plan.ranks + per_host - 1) / per_host);
  return true;
}

bool Layouts::refuse_if_it_cannot_run(const AttemptPlan& plan) {
  if (!plan.fewer || history_.attempts.back().ended->cause != Cause::configuration) return false;
  known_.refuse(plan.layout);
  refused_ = history_.attempts.back().ended->error;
  launcher_.log(plan.layout.text() + " cannot run here: another layout is tried");
  return true;
}

std::string Layouts::describe(const AttemptPlan& plan) {
  if (!plan.fewer) return plan.layout.legal ? " (" + plan.layout.text() + ")" : "";
  const auto whole = known_.at(0, settings_.nodes * settings_.ranks_per_node);
  return fmt::format(
      " ({} in place of {}, on {} of {} hosts{}: results agree within the layout tolerance, not in "
      "bits)",
      plan.layout.text(), whole ? whole->text() : "?", plan.hosts.size(), settings_.nodes,
      plan.idle > 0 ? fmt::format(", {} slots idle", plan.idle) : "");
}

}  // namespace trireme::supervisor
