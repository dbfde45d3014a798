// Layouts: which number of ranks an attempt takes when hosts are few. The program says what is
// legal (--check-layout); tensor and pipeline size stay, unless it chooses them by the number of
// ranks, and the data parallel size falls.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme::supervisor {

/// What the program says of a number of ranks.
struct Layout {
  Index ranks = 0;
  bool legal = false;
  Index data = 0, pipeline = 0, tensor = 0;
  Index rank_bytes = 0;      // planned memory of the rank that needs most; 0: unknown
  std::string problem = {};  // the first one, where it is not legal
  std::size_t choice = 0;    // 0: PROGRAM as given; else --also-layout of this number
  bool planned = false;      // by --plan auto: other numbers of ranks may have another unit
  Index unit() const { return tensor * pipeline; }
  std::string text() const;  // "pp1 dp2 tp2"
};

/// The lines that `PROGRAM --check-layout` printed. A line that is none is left out.
std::vector<Layout> parse_layouts(const std::string& lines);

/// What the program is to be asked.
struct LayoutQuestion {
  std::size_t choice = 0;  // with the options of --also-layout of this number; 0: as given
  std::vector<Index> ranks = {};
};

/// What the program has said so far. It is not asked here, as it may take minutes to answer: where
/// an answer is missing, question() says which.
class Layouts {
 public:
  /// `choices`: 1, and how often --also-layout is given.
  explicit Layouts(std::size_t choices) : choices_(choices) {}

  /// What the last calls needed and did not know: what they returned is void.
  const std::optional<LayoutQuestion>& question() const { return question_; }
  void drop_question() { question_.reset(); }
  /// Numbers of ranks without a layout were not answered, and are not asked again; but for those
  /// behind the first one that has no answer and is behind all answers: the program answers in
  /// order, and was ended when its time was over.
  void answer(const LayoutQuestion& question, const std::vector<Layout>& layouts);

  /// Nothing: the program gave no answer.
  std::optional<Layout> at(std::size_t choice, Index ranks);
  /// The legal layout with most ranks, at most `ranks`: of PROGRAM as given, else of the first
  /// --also-layout that has one. Nothing: there is none.
  std::optional<Layout> largest(Index ranks);
  std::optional<Layout> largest_of(std::size_t choice, Index ranks);
  /// The program has ended with 64 on this layout: it is no longer legal.
  void refuse(const Layout& layout);

 private:
  void ask(LayoutQuestion question);

  const std::size_t choices_;
  std::optional<LayoutQuestion> question_;
  std::map<std::pair<std::size_t, Index>, std::optional<Layout>> known_;
  std::map<std::size_t, Index> units_;  // by choice, once one of its layouts was legal
};

}  // namespace trireme::supervisor
