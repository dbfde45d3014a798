// The bytes of PREFIX.idx (little-endian), one place for reader and writer:
//    0  magic[9]
//    9  u64 version
//   17  u8 token type
//   18  u64 number of sequences S
//   26  u64 length D of the document index
//   34  i32[S] tokens per sequence
//       i64[S] byte offset of each sequence in .bin
//       i64[D] documents: 0, then the end of each, counted in sequences
#pragma once

#include <bit>
#include <string>

#include "trireme/data/token_file.h"

namespace trireme::data::token_layout {

static_assert(std::endian::native == std::endian::little, "files are read in place");

inline constexpr char magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
inline constexpr std::uint64_t version = 1;
inline constexpr Index version_at = 9, type_at = 17, sequences_at = 18, documents_at = 26;
inline constexpr Index arrays_at = 34;
inline constexpr Index length_bytes = 4, offset_bytes = 8, document_bytes = 8;

/// Calls f with a value of the stored type.
template <class F>
auto with_type(TokenType type, F&& f) {
  switch (type) {
    case TokenType::u8:
      return f(std::uint8_t{});
    case TokenType::i8:
      return f(std::int8_t{});
    case TokenType::i16:
      return f(std::int16_t{});
    case TokenType::i32:
      return f(std::int32_t{});
    case TokenType::i64:
      return f(std::int64_t{});
    case TokenType::u16:
      break;
  }
  return f(std::uint16_t{});
}

}  // namespace trireme::data::token_layout

namespace trireme::data {

/// What another program has written is not replaced. A file of tokens has no mark of its own: it is
/// one where it has an index, a sidecar, or the beginnings that a writer which was killed has left.
/// `sidecar`: one is to be written too. Throws: Error "PATH: WHY" where a file, or an unfinished
/// one, is not of this program.
void check_token_outputs(const std::string& prefix, bool sidecar);

}  // namespace trireme::data
