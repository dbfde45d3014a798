// What a tokenizer.json defines, as plain values: TokenizerDefinition. Reading it checks
// everything; the parts of a Tokenizer are built from it and trust it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme::data {

using Token = std::int32_t;

/// One character of UTF-8, U+2581, that stands for a space where pieces are made of characters.
inline constexpr std::string_view space_mark = "\xE2\x96\x81";

/// Tokens below this; a table of all tokens then has a size that a hostile file cannot choose.
inline constexpr Token token_limit = 1 << 24;

struct NormalizerStep {
  /// replace: the text `pattern`; replace_matches: matches of the regular expression; alphabet:
  /// bytes become characters of GPT-2's alphabet.
  enum class Kind {
    nfc,
    prepend,
    replace,
    nfd,
    nfkc,
    nfkd,
    replace_matches,
    strip_left,
    strip_right,
    lowercase,
    alphabet
  };
  Kind kind = Kind::nfc;
  std::string pattern;  // for both replacements
  std::string content;  // prepend, and what replaces
};

struct PretokenizerStep {
  /// prepend: `text` goes before a piece that does not begin with it; split: every match of the
  /// pattern `text` is a segment, and so is what lies between matches; mark: spaces become `text`;
  /// split_before: every `text` begins a piece; split_before_run: every run of it does; alphabet:
  /// as of a normalizer.
  enum class Kind { prepend, prepend_first, split, mark, split_before, split_before_run, alphabet };
  /// The pieces of a split. Isolated: all segments. Removed: those that are no match. Else each
  /// match becomes part of the segment before it or behind it that is none; or neighbours that both
  /// are matches, or both are none, become one.
  enum class Behavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };
  Kind kind = Kind::split;
  std::string text;
  Behavior behavior = Behavior::isolated;
  bool invert = false;  // what lies between matches counts as a match, and a match as none
};

struct Decoder {
  bool byte_level = false;  // tokens are written in GPT-2's alphabet
  std::vector<std::pair<std::string, std::string>> replace;  // in each token, one after the other
  Index strip_spaces = 0;  // so many spaces at the beginning are left out
};

struct AddedToken {
  Token id = 0;
  std::string content;
  bool left_strip = false, right_strip = false;  // whitespace beside it belongs to it
  bool normalized = false;                       // it is searched for in normalized text
};

struct Merge {
  Token left, right, whole;
};

struct TokenizerDefinition {
  /// What the model merges at first: bytes, or characters (and bytes of those without a token).
  enum class Symbols { bytes, characters } symbols = Symbols::bytes;
  bool byte_fallback = false;  // characters without a token are bytes
  Token unknown = -1;          // or this, where they are not; -1: there are no such characters
  bool fuse_unknown = false;   // one for all that follow each other
  std::vector<std::pair<Token, std::string>> vocabulary;  // by token; no token and no text twice
  std::vector<Merge> merges;  // first those that come first; of a pair that is there twice the last
  bool whole_words_first =
      false;  // a piece that is in the vocabulary is not merged (ignore_merges)
  std::vector<NormalizerStep> normalizer;
  std::vector<PretokenizerStep> pretokenizer;
  Decoder decoder;
  std::vector<AddedToken> added;  // by token; no token and no text twice
};

/// Throws: Error that names the file and everything that is not understood.
TokenizerDefinition read_tokenizer(const std::string& path);

/// The bytes that a text of GPT-2's byte alphabet stands for (one character a byte); false when it
/// holds other characters.
bool bytes_of_alphabet(std::string_view text, std::string& bytes);

/// Appends a character of that alphabet for each byte.
void append_in_alphabet(std::string_view bytes, std::string& text);

/// No text has 0xC0, 0xC1, and 0xF5 to 0xFF.
bool is_byte_of_utf8(unsigned char byte);

/// "<0x41>" for 'A'.
std::string name_of_byte(unsigned char byte);

/// 16 hexadecimal digits, of everything in `definition` that changes tokens.
std::string hash_of(const TokenizerDefinition& definition);

}  // namespace trireme::data
