// TextEncoder: text into tokens and back, by a tokenizer or as bytes.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme::data {

/// Safe to use from several threads.
class TextEncoder {
 public:
  /// What one thread encodes with.
  class Worker {
   public:
    virtual ~Worker() = default;
    /// Appends the tokens of a text; none are added.
    virtual void encode(std::string_view text, std::vector<std::int32_t>& tokens) = 0;
    /// Sets a function like Tokenizer::Scratch::while_encoding(), where that is worth a call.
    virtual void while_encoding(std::function<void()> /*f*/) {}  // NOLINT: overriders keep it
  };

  virtual ~TextEncoder() = default;
  virtual std::unique_ptr<Worker> worker() const = 0;
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  /// Decodes like decode(), with `unknown` for each token that the vocabulary lacks.
  virtual std::string decode_or(std::span<const std::int32_t> tokens,
                                std::string_view unknown) const = 0;
  virtual Index vocabulary() const = 0;
  virtual std::optional<Index> bos() const = 0;
  virtual std::optional<Index> eod() const = 0;
  /// Returns the tokens that end a text, like Tokenizer::stops().
  virtual std::vector<std::int32_t> stops() const;
  virtual std::vector<std::string> warnings() const { return {}; }
  /// Returns the hash that Sidecar::tokenizer keeps.
  virtual std::string hash() const = 0;
  /// Whether tokens are bytes: text may be anything, and may be cut anywhere.
  virtual bool of_bytes() const = 0;
};

/// The bytes that the tokens from `first` on add to the text of those before them, U+FFFD for a
/// token that the vocabulary lacks. Part of a character is possible at both ends.
std::string decode_from(std::size_t first, std::span<const std::int32_t> tokens,
                        const TextEncoder& encoder);

/// A token is a byte: vocabulary 256.
std::unique_ptr<TextEncoder> byte_encoder();

/// `path`: tokenizer.json, or a directory with one. Throws: Error, as Tokenizer::load().
std::unique_ptr<TextEncoder> tokenizer_encoder(const std::string& path);

}  // namespace trireme::data
