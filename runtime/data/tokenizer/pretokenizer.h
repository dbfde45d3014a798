// Pretokenizer: cuts text into pieces, which the model encodes one by one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/function_ref.h"

#include "runtime/data/tokenizer/pretokenizer_pattern.h"
#include "runtime/data/tokenizer/tokenizer_definition.h"

namespace trireme::data {

/// Receives a piece, never empty, and the end of the memory that is readable behind it.
using TakePiece = FunctionRef<void(std::string_view piece, const char* readable_end)>;

class Pretokenizer {
 public:
  /// `cut_at_marks`: also before each run of marks, which then is exact (Bpe::marks_begin_words).
  Pretokenizer(const std::vector<PretokenizerStep>& steps, bool cut_at_marks);

  /// Memory of one thread: one for each step.
  struct Memory {
    struct Step {
      std::vector<Pattern::Search> search;  // for a split
      std::string text;                     // for other steps
    };
    std::vector<Step> steps;
  };
  Memory make_memory() const;

  /// `first`: `text` is the beginning of what is encoded.
  void cut(std::string_view text, bool first, Memory& memory, TakePiece take) const;

 private:
  struct Step {
    PretokenizerStep definition;
    std::vector<Pattern> pattern;  // for a split
  };
  struct Piece {
    std::string_view text;
    const char* readable_end;
    bool first;
    Piece part(std::size_t begin, std::size_t end) const {
      return {text.substr(begin, end - begin), readable_end, first && begin == 0};
    }
  };
  void run(std::size_t step, const Piece& piece, Memory& memory, TakePiece take) const;
  void split(std::size_t step, const Piece& piece, Memory& memory, TakePiece take) const;
  void cut_before_marks(std::size_t step, const Piece& piece, Memory& memory, TakePiece take) const;
  Piece changed(std::size_t step, const Piece& piece, Memory& memory) const;

  std::vector<Step> steps_;
};

}  // namespace trireme::data
