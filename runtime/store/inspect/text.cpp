// Implements to_text (inspect.h).
// What inspect.h finds, for people.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/core/show_bytes.h"
#include "runtime/store/inspect/inspect.h"

namespace trireme {
namespace {

/// Rows of cells under a row of titles; columns as wide as they need, numbers to the right.
class Table {
 public:
  enum class Align { left, right };
  explicit Table(std::vector<std::pair<std::string, Align>> columns)
      : columns_(std::move(columns)) {
    std::vector<std::string> titles;
    for (const auto& [title, align] : columns_) titles.push_back(title);
    rows_.push_back(std::move(titles));
  }
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  std::string text() const {
    std::string all;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t c = 0; c < row.size(); ++c)
        line += columns_[c].second == Align::right ? fmt::format("  {:>{}}", row[c], width(c))
                                                   : fmt::format("  {:<{}}", row[c], width(c));
      all += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return all;
  }

 private:
  std::size_t width(std::size_t column) const {
    std::size_t most = 0;
    for (const auto& row : rows_) most = std::max(most, row[column].size());
    return most;
  }
  std::vector<std::pair<std::string, Align>> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string counted(Index count, const std::string& thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string age_of(const std::string& created, Index now) {
  const std::optional<Index> age = age_s(created, now);
  return age ? readable_age(*age) : "?";
}

/// "<title>: a, b" and a newline; nothing when there are no items.
template <class T>
std::string items_line(const std::string& title, const std::vector<T>& items) {
  std::string line;
  for (const T& item : items) line += str(line.empty() ? title + ": " : ", ", item);
  return line.empty() ? "" : line + "\n";
}

/// Of a fact; none: it is not there.
std::string shown(const std::optional<std::string>& value) {
  return !value ? "missing" : value->empty() ? "-" : *value;
}

std::string facts_text(const std::string& title, const KeyValues& facts) {
  if (facts.empty()) return "";
  std::string text = title + ":\n";
  std::size_t width = 0;
  for (const auto& [name, value] : facts) width = std::max(width, name.size());
  for (const auto& [name, value] : facts)
    text += fmt::format("  {:<{}}  {}\n", name, width, shown(value));
  return text;
}

std::string tensor_line(const TensorDifference& t) {
  using Kind = TensorDifference::Kind;
  if (t.kind == Kind::only_in_a) return fmt::format("{}: only in A ({})\n", t.name, t.form_a);
  if (t.kind == Kind::only_in_b) return fmt::format("{}: only in B ({})\n", t.name, t.form_b);
  if (t.kind == Kind::form)
    return fmt::format("{}: {} in A, {} in B\n", t.name, t.form_a, t.form_b);
  std::string distance;
  if (t.not_finite < t.differing) distance = fmt::format(", by at most {:.6g}", t.largest_distance);
  if (t.not_finite > 0)
    distance += fmt::format(", {} of them infinite or no number on a side", t.not_finite);
  return fmt::format("{} ({}): {} of {} differ{}; first at {}: {} in A, {} in B ({}, {})\n", t.name,
                     t.form_a, t.differing, counted(t.elements, "element"), distance, str(t.first),
                     t.a.value, t.b.value, t.a.bits, t.b.bits);
}

/// Says where sides that may differ do so most.
std::string largest_line(const StepDiff& diff) {
  const TensorDifference* t = diff.tolerance > 0 ? diff.largest() : nullptr;
  if (t == nullptr) return "";
  const TensorDifference::Largest& at = t->largest;
  return fmt::format("largest difference: {:.6g} in {} at {}: {} in A, {} in B\n", at.difference,
                     t->name, str(at.index), at.a.value, at.b.value);
}

/// "2026-11-28 14:47" of a date of a manifest.
std::string minute_of(const std::string& created) {
  constexpr std::size_t day = 10, minute = 16;
  if (created.size() < minute) return created;
  return created.substr(0, day) + ' ' + created.substr(day + 1, minute - day - 1);
}

/// What steps of one run in one layout have in common, after their numbers: "steps 30 to 10: run
/// 19f-1a" and the layout.
std::string origins_text(const std::vector<StepSummary>& steps) {
  std::string text;
  for (std::size_t i = 0, end; i < steps.size(); i = end) {
    const auto is_same = [&](const StepSummary& s) {
      return s.run == steps[i].run && s.layout == steps[i].layout;
    };
    for (end = i + 1; end < steps.size() && is_same(steps[end]);) ++end;
    if (steps[i].run.empty()) continue;
    text += end == i + 1 ? str("step ", steps[i].step)
                         : str("steps ", steps[i].step, " to ", steps[end - 1].step);
    text += ": run " + steps[i].run + "\n  " + steps[i].layout + "\n";
  }
  return text;
}

}  // namespace

std::optional<Index> age_s(const std::string& created, Index now) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, end = 0;
  const int found = std::sscanf(created.c_str(), "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &year, &month, &day,
                                &hour, &minute, &second, &end);
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (found != 6 || end != static_cast<int>(created.size()) || !date.ok()) return std::nullopt;
  const Index days = std::chrono::sys_days(date).time_since_epoch().count();
  return now - (((days * 24 + hour) * 60 + minute) * 60 + second);
}

std::string readable_age(Index seconds) {
  constexpr Index minute = 60, hour = 60 * minute, day = 24 * hour;
  if (seconds < 0) return "in the future";
  if (seconds < minute) return fmt::format("{} s", seconds);
  if (seconds < hour) return fmt::format("{} min", seconds / minute);
  if (seconds < day) return fmt::format("{} h {} min", seconds / hour, seconds % hour / minute);
  return fmt::format("{} d {} h", seconds / day, seconds % day / hour);
}

std::string to_text(const RunSummary& run, Index now) {
  std::string text = fmt::format("{}: {}, {}\n", run.root,
                                 counted(static_cast<Index>(run.steps.size()), "committed step"),
                                 show_bytes(run.bytes()));
  using Align = Table::Align;
  Table table({{"step", Align::right},
               {"created (UTC)", Align::left},
               {"age", Align::right},
               {"size", Align::right},
               {"shards", Align::right},
               {"verified", Align::left},
               {"files", Align::left}});
  for (const StepSummary& s : run.steps)
    table.add({std::to_string(s.step), minute_of(s.created), age_of(s.created, now),
               show_bytes(s.bytes), std::to_string(s.shards), s.verified,
               s.problem.empty() ? "intact" : "BAD"});
  if (!run.steps.empty()) text += table.text() + origins_text(run.steps);
  for (const StepSummary& s : run.steps)
    if (!s.problem.empty()) text += fmt::format("bad: {}\n", s.problem);
  text += items_line("unfinished", run.unfinished);
  text += items_line("set aside", run.set_aside);
  text += items_line("half deleted or replaced", run.cut_off);
  if (!run.writer) return text + "no job writes here\n";
  const Writer& w = *run.writer;
  return text + fmt::format("lease: pid {} on {} (run {}, since {}){}\n", w.pid, w.host, w.run,
                            w.since, w.gone ? ", which is gone" : "");
}

std::string to_text(const StepDiff& diff, const OpenedStep& a, const OpenedStep& b) {
  std::string text;
  for (const auto& [letter, side] : {std::pair('A', &a), std::pair('B', &b)})
    text += fmt::format("{}: {} (step {}, {})\n", letter, side->directory, side->manifest.step,
                        side->manifest.layout);
  std::string group;
  for (const FactDifference& fact : diff.facts) {
    if (fact.group != group) text += fact.group + ":\n";
    group = fact.group;
    text += fmt::format("  {}: {} in A, {} in B\n", fact.name, shown(fact.a), shown(fact.b));
  }
  for (const TensorDifference& tensor : diff.tensors)
    if (tensor.counts()) text += tensor_line(tensor);
  text += largest_line(diff);
  const std::string compared = fmt::format("{}, {}", counted(diff.tensors_compared, "tensor"),
                                           show_bytes(diff.bytes_compared));
  if (diff.equal()) return text + fmt::format("equal: {} compared\n", compared);
  const std::string within =
      diff.tolerance > 0 ? fmt::format(" the tolerance {}", diff.tolerance) : "";
  if (diff.beyond() == 0)
    return text + fmt::format("equal within{}: {} compared\n", within, compared);
  return text + fmt::format("different{}{}: {} ({} compared in contents)\n",
                            within.empty() ? "" : " beyond", within,
                            counted(diff.beyond(), "tensor"), compared);
}

std::string to_text(const VerifiedStep& verified) {
  if (verified.problems.empty()) return fmt::format("step {}: intact\n", verified.step.step);
  std::string text;
  for (const std::string& problem : verified.problems)
    text += fmt::format("step {}: {}\n", verified.step.step, problem);
  return text;
}

std::string to_text(const PrunePlan& plan, Tense tense) {
  const bool done = tense == Tense::done;
  std::string text = items_line(done ? "deleted steps" : "would delete steps", plan.deleted) +
                     items_line(done ? "kept steps" : "would keep steps", plan.kept);
  for (const std::string& problem : plan.damaged) text += fmt::format("bad: {}\n", problem);
  text += items_line(done ? "cleaned leftovers" : "would clean leftovers", plan.leftovers);
  if (plan.deleted.empty()) return text + "no step to delete\n";
  return text + fmt::format("{} {}\n", done ? "freed" : "would free", show_bytes(plan.bytes));
}

std::string to_text(const OpenedStep& step, Index now) {
  const Manifest& m = step.manifest;
  using Align = Table::Align;
  std::string text =
      fmt::format("{}: step {}\ncreated  {} (age {})\nrun      {}\nlayout   {}\n", step.directory,
                  m.step, m.created, age_of(m.created, now), m.run, m.layout);
  Table tensors({{"tensor", Align::left},
                 {"dtype", Align::left},
                 {"shape", Align::left},
                 {"size", Align::right},
                 {"pieces", Align::right}});
  for (const Manifest::Tensor& t : m.tensors)
    tensors.add({t.name, name(t.dtype), str(t.global),
                 show_bytes(t.global.count() * size_bytes(t.dtype)),
                 std::to_string(t.pieces.size())});
  text += tensors.text();
  Table totals({{"total", Align::left},
                {"tensors", Align::right},
                {"elements", Align::right},
                {"size", Align::right}});
  for (const TensorTotal& total : totals_of(m))
    totals.add({total.group, std::to_string(total.tensors), std::to_string(total.elements),
                show_bytes(total.bytes)});
  text += totals.text();
  text += facts_text("identity", m.identity) + facts_text("positions", m.positions) +
          facts_text("versions", m.versions) + facts_text("options", m.options);
  Table files({{"file", Align::left}, {"size", Align::right}, {"blocks", Align::right}});
  for (const Manifest::File& file : m.files)
    files.add({file.name, show_bytes(file.bytes), std::to_string(file.blocks.size())});
  return text + files.text();
}

}  // namespace trireme
