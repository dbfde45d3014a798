#include "runtime/data/tokenizer/pretokenizer.h"

namespace trireme::data {

using Kind = PretokenizerStep::Kind;
using Behavior = PretokenizerStep::Behavior;

namespace {

/// Whether a segment and the one behind it are one piece.
bool are_one(Behavior behavior, bool is_match, bool next_is_match) {
  switch (behavior) {
    case Behavior::merged_with_previous:
      return !is_match && next_is_match;
    case Behavior::merged_with_next:
      return is_match && !next_is_match;
    case Behavior::contiguous:
      return is_match == next_is_match;
    case Behavior::isolated:
    case Behavior::removed:
      return false;
  }
  return false;
}

}  // namespace

Pretokenizer::Pretokenizer(const std::vector<PretokenizerStep>& steps, bool cut_at_marks) {
  for (const PretokenizerStep& step : steps) {
    steps_.push_back({step, {}});
    if (step.kind == Kind::split) steps_.back().pattern.emplace_back(step.text);
  }
  if (cut_at_marks) steps_.push_back({{Kind::split_before_run, std::string(space_mark)}, {}});
}

Pretokenizer::Memory Pretokenizer::make_memory() const {
  Memory memory;
  for (const Step& step : steps_) {
    memory.steps.emplace_back();
    for (const Pattern& pattern : step.pattern) memory.steps.back().search.emplace_back(pattern);
  }
  return memory;
}

void Pretokenizer::cut(std::string_view text, bool first, Memory& memory, TakePiece take) const {
  run(0, {text, text.data() + text.size(), first}, memory, take);
}

void Pretokenizer::run(std::size_t step, const Piece& piece, Memory& memory, TakePiece take) const {
  if (piece.text.empty()) return;
  if (step == steps_.size()) return take(piece.text, piece.readable_end);
  switch (steps_[step].definition.kind) {
    case Kind::split:
      return split(step, piece, memory, take);
    case Kind::split_before:
    case Kind::split_before_run:
      return cut_before_marks(step, piece, memory, take);
    case Kind::prepend:
    case Kind::prepend_first:
    case Kind::mark:
    case Kind::alphabet:
      return run(step + 1, changed(step, piece, memory), memory, take);
  }
}

void Pretokenizer::split(std::size_t step, const Piece& piece, Memory& memory,
                         TakePiece take) const {
  const PretokenizerStep& split = steps_[step].definition;
  Pattern::Search& search = memory.steps[step].search.front();
  search.start(piece.text);
  std::size_t begin = 0, end = 0;  // of the segments that are one piece so far
  bool is_match = false, is_first = true;
  const auto hand_on = [&] {
    if (split.behavior != Behavior::removed || !is_match)
      run(step + 1, piece.part(begin, end), memory, take);
  };
  const auto add = [&](std::size_t until, bool match) {
    if (!is_first && !are_one(split.behavior, is_match, match)) hand_on(), begin = end;
    end = until;
    is_match = match;
    is_first = false;
  };
  for (Pattern::Search::Match match; search.next(match);) {
    if (end < match.begin) add(match.begin, split.invert);
    add(match.end, !split.invert);
  }
  if (end < piece.text.size()) add(piece.text.size(), split.invert);
  hand_on();
}

void Pretokenizer::cut_before_marks(std::size_t step, const Piece& piece, Memory& memory,
                                    TakePiece take) const {
  const std::string& mark = steps_[step].definition.text;
  const bool runs = steps_[step].definition.kind == Kind::split_before_run;
  std::size_t begin = 0, behind_mark = 0;
  for (std::size_t at = 0; (at = piece.text.find(mark, at)) != piece.text.npos;) {
    if (!runs || at != behind_mark) {
      run(step + 1, piece.part(begin, at), memory, take);
      begin = at;
    }
    behind_mark = at += mark.size();
  }
  run(step + 1, piece.part(begin, piece.text.size()), memory, take);
}

Pretokenizer::Piece Pretokenizer::changed(std::size_t step, const Piece& piece,
                                          Memory& memory) const {
  const auto& [kind, added, behavior, invert] = steps_[step].definition;
  std::string& text = memory.steps[step].text;
  if (kind == Kind::alphabet) {
    text.clear();
    append_in_alphabet(piece.text, text);
  } else if (kind == Kind::mark) {
    text.clear();
    for (char c : piece.text) c == ' ' ? void(text += added) : text.push_back(c);
  } else {
    const bool here = kind == Kind::prepend || piece.first;
    if (!here || piece.text.starts_with(added)) return piece;
    text.assign(added).append(piece.text);
  }
  return {text, text.data() + text.size(), piece.first};
}

}  // namespace trireme::data
