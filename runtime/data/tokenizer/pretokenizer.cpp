#include "runtime/data/tokenizer/pretokenizer.h"

namespace trireme::data {

using Kind = PretokenizerStep::Kind;

Pretokenizer::Pretokenizer(const std::vector<PretokenizerStep>& steps, bool cut_at_marks) {
  for (const PretokenizerStep& step : steps) {
    steps_.push_back({step.kind, step.text, {}});
    if (step.kind == Kind::split) steps_.back().pattern.emplace_back(step.text);
  }
  if (cut_at_marks) steps_.push_back({Kind::split_before_run, std::string(space_mark), {}});
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
  switch (steps_[step].kind) {
    case Kind::split:
      return split(step, piece, memory, take);
    case Kind::split_before:
    case Kind::split_before_run:
      return cut_before_marks(step, piece, memory, take);
    default:
      return run(step + 1, changed(step, piece, memory), memory, take);
  }
}

void Pretokenizer::split(std::size_t step, const Piece& piece, Memory& memory,
                         TakePiece take) const {
  Pattern::Search& search = memory.steps[step].search.front();
  search.start(piece.text);
  std::size_t end = 0;
  for (Pattern::Search::Match match; search.next(match); end = match.end) {
    if (end < match.begin) run(step + 1, piece.part(end, match.begin), memory, take);
    run(step + 1, piece.part(match.begin, match.end), memory, take);
  }
  run(step + 1, piece.part(end, piece.text.size()), memory, take);
}

void Pretokenizer::cut_before_marks(std::size_t step, const Piece& piece, Memory& memory,
                                    TakePiece take) const {
  const std::string& mark = steps_[step].text;
  const bool runs = steps_[step].kind == Kind::split_before_run;
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
  const std::string& added = steps_[step].text;
  std::string& text = memory.steps[step].text;
  if (steps_[step].kind == Kind::mark) {
    text.clear();
    for (char c : piece.text) c == ' ' ? void(text += added) : text.push_back(c);
  } else {
    const bool here = steps_[step].kind == Kind::prepend || piece.first;
    if (!here || piece.text.starts_with(added)) return piece;
    text.assign(added).append(piece.text);
  }
  return {text, text.data() + text.size(), piece.first};
}

}  // namespace trireme::data
