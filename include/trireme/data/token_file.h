// TokenFile: tokens of a Megatron indexed dataset, PREFIX.bin and PREFIX.idx, read as one long row
// of tokens with document boundaries. docs/reference/data_formats.md has the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "trireme/core/dtype.h"

namespace trireme {

/// How a token is stored; the values are the codes in the file.
enum class TokenType : std::uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };
const char* name(TokenType type);
Index size_bytes(TokenType type);
/// Smallest unsigned type for tokens in [0, vocabulary): u8, u16, else i32.
TokenType token_type_for(Index vocabulary);

/// Read-only. Safe to read from several threads.
class TokenFile {
 public:
  /// Checks both files completely (header, sizes, every sequence, every document; not the tokens).
  /// Throws: Error that names the file, what is wrong in it and where.
  explicit TokenFile(const std::string& prefix);
  TokenFile(TokenFile&&) noexcept;
  ~TokenFile();

  const std::string& prefix() const;
  TokenType type() const;
  Index tokens() const;
  Index sequences() const;
  Index documents() const;
  /// Returns where document d begins, in tokens; d = documents() gives tokens().
  Index document_begin(Index d) const;
  /// Tokens [first, first + out.size()). Throws: Error that names file, position, token and
  /// vocabulary when a token is not in [0, vocabulary), or the file when it has been truncated.
  void read(Index first, std::span<std::int32_t> out, Index vocabulary) const;
  /// Reads without the vocabulary check, for inspection.
  void read(Index first, std::span<std::int64_t> out) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes PREFIX.bin and PREFIX.idx, one sequence per document. Both appear under their names only
/// in finish(), when they are complete and on disk; until then they are PREFIX.bin.tmp and
/// PREFIX.idx.tmp.
class TokenFileWriter {
 public:
  /// Throws: Error when the file cannot be made.
  TokenFileWriter(const std::string& prefix, TokenType type);
  /// Removes unfinished files.
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  /// Appends to the open document. Throws: Error when a token does not fit the type, or the disk is
  /// full.
  void add(std::span<const std::int64_t> tokens);
  void add(std::span<const std::int32_t> tokens);
  void end_document();
  /// `sidecar`: the text of PREFIX.json, which appears with them; empty: none, and that of earlier
  /// tokens is removed. Throws: Error when the disk is full or a document is still open.
  void finish(const std::string& sidecar = "");

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
