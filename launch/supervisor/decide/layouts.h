// Layouts: which number of ranks an attempt takes when hosts are few. The program says what is
// legal (--check-layout); tensor and pipeline size stay, unless it chooses them by the number of
// ranks, and the data parallel size falls.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/supervisor/decide/session.h"

namespace trireme::supervisor {

/// Reads the lines that `PROGRAM --check-layout` printed. Leaves out a line that is none.
std::vector<Layout> parse_layouts(const std::string& lines);

/// What the program is to be asked.
struct LayoutQuestion {
  std::size_t choice = 0;  // the number of the --also-layout whose options it has; 0: none
  std::vector<Index> ranks = {};
};

/// What the program has said so far. It is not asked here, as it may take minutes to answer: where
/// an answer is missing, question() says which.
class KnownLayouts {
 public:
  /// `choices`: 1, and how often --also-layout is given.
  explicit KnownLayouts(std::size_t choices) : choices_(choices) {}

  /// Returns what the last calls needed and did not know: what they returned is void.
  const std::optional<LayoutQuestion>& question() const { return question_; }
  void drop_question() { question_.reset(); }
  /// Takes an answer. Numbers of ranks without a layout were not answered, and are not asked again;
  /// but for those behind the first one that has no answer and is behind all answers: the program
  /// answers in order, and was ended when its time was over.
  void answer(const LayoutQuestion& question, const std::vector<Layout>& layouts);

  /// Returns the layout of `ranks`; nothing: the program gave no answer.
  std::optional<Layout> at(std::size_t choice, Index ranks);
  /// Returns the legal layout with most ranks, at most `ranks`: that of PROGRAM as given, else that
  /// of the first --also-layout that has one. Nothing: there is none.
  std::optional<Layout> largest(Index ranks);
  std::optional<Layout> largest_of(std::size_t choice, Index ranks);
  /// Says that the program has ended with 64 on this layout: it is no longer legal.
  void refuse(const Layout& layout);

 private:
  void request(LayoutQuestion question);

  const std::size_t choices_;
  std::optional<LayoutQuestion> question_;
  std::map<std::pair<std::size_t, Index>, std::optional<Layout>> known_;
  std::map<std::size_t, Index> units_;  // by choice, once one of its layouts was legal
};

/// The layouts of the attempts of a session: those that the program calls legal, which is asked
/// while other things go on.
class Layouts : Part {
 public:
  explicit Layouts(Session& session);

  /// Calls `use`, which asks for layouts. Returns false where the program is being asked for what
  /// was missing; what `use` has found is void then.
  bool with(const std::function<void()>& use);
  /// Does as with(), and waits for the answers; between attempts. Returns false where it was asked
  /// to stop.
  bool await(const std::function<void()>& use);
  /// Ends what the program is asked.
  void drop_question() { asked_.reset(); }

  /// Returns what is wrong with --min-nodes and --also-layout, before anything starts; empty:
  /// nothing.
  std::string why_not_elastic();
  using PickSome = std::function<std::vector<Host>(Index count)>;
  /// Takes the layout of the hosts that were picked; where those are none, that of as many as can
  /// be had. Hosts that it does not need stay out. Returns false where there are hosts, and no
  /// layout is legal on them.
  bool choose(AttemptPlan& plan, const PickSome& pick_some);
  /// Leaves out a layout that the program has refused after it had called it legal, as where memory
  /// is short: the next smaller one is tried. Returns false where it has not refused one.
  bool refuse_if_it_cannot_run(const AttemptPlan& plan);
  /// Returns what the program said when it could not run on a smaller layout; empty: it could.
  const std::string& refused() const { return refused_; }
  /// Returns " (pp1 dp1 tp2 on 1 host ...)" for the line that an attempt begins with; empty:
  /// nothing special.
  std::string describe(const AttemptPlan& plan);

 private:
  KnownLayouts known_;
  std::unique_ptr<Pending<std::vector<Layout>>>
      asked_;  // the program's answer; null: nothing is asked
  LayoutQuestion asked_for_;
  std::string refused_;
};

}  // namespace trireme::supervisor
