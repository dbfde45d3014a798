// Layouts: which number of ranks an attempt takes when hosts are few. The program says what is
// legal (--check-layout); tensor and pipeline size stay, the data parallel size falls.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
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
  Index unit() const { return tensor * pipeline; }
  std::string text() const;  // "pp1 dp2 tp2"
};

/// The lines that `PROGRAM --check-layout` printed. A line that is none is left out.
std::vector<Layout> parse_layouts(const std::string& lines);

class Layouts {
 public:
  /// Asks the program, started with the options of `choice`; those that it gives no answer for are
  /// missing.
  using Check =
      std::function<std::vector<Layout>(std::size_t choice, const std::vector<Index>& ranks)>;

  /// `choices`: 1, and how often --also-layout is given.
  Layouts(std::size_t choices, Check check) : choices_(choices), check_(std::move(check)) {}

  /// Nothing: the program gave no answer.
  std::optional<Layout> at(std::size_t choice, Index ranks);
  /// The legal layout with most ranks, at most `ranks`: of PROGRAM as given, else of the first
  /// --also-layout that has one. Nothing: there is none.
  std::optional<Layout> largest(Index ranks);
  std::optional<Layout> largest_of(std::size_t choice, Index ranks);
  /// The program has ended with 64 on this layout: it is no longer legal.
  void refuse(const Layout& layout);

 private:
  void ask(std::size_t choice, const std::vector<Index>& ranks);

  const std::size_t choices_;
  const Check check_;
  std::map<std::pair<std::size_t, Index>, std::optional<Layout>> known_;
  std::map<std::size_t, Index> units_;  // by choice, once one of its layouts was legal
};

}  // namespace trireme::supervisor
