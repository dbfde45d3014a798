// Tokenizer: text to tokens and back, as a tokenizer.json of Hugging Face says. Byte-pair encoding
// of our own, token for token equal to the package `tokenizers`; what is understood of the file:
// docs/reference/tokenizers.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

/// Never changes once it is loaded: threads may share one, each with a Scratch of its own.
class Tokenizer {
 public:
  /// `path`: a tokenizer.json, or a directory with one. Throws: Error that names the file and
  /// everything in it that is not understood, a line each.
  static Tokenizer load(const std::filesystem::path& path);
  Tokenizer(Tokenizer&& other) noexcept;
  Tokenizer& operator=(Tokenizer&& other) noexcept;
  ~Tokenizer();

  /// What one thread needs to encode: the tokens of words that it has met, and working memory. At
  /// most 8 MiB and some times the longest text. May be used with several tokenizers in turn; keeps
  /// the memory of the last one.
  class Scratch {
   public:
    Scratch();
    Scratch(Scratch&& other) noexcept;
    Scratch& operator=(Scratch&& other) noexcept;
    ~Scratch();
    /// `f` is called now and then while a long text is encoded. encode() throws what it throws, and
    /// leaves the tokens as they were.
    void while_encoding(std::function<void()> f);

   private:
    friend class Tokenizer;
    struct State;
    std::unique_ptr<State> state_;
  };

  /// Appends the tokens of `text`, which is UTF-8. Added tokens are found where they stand in the
  /// text; none is added before or after it. Throws: Error with the offset of the first byte that
  /// is not UTF-8 (`tokens` is then as it was), or when a pattern needs too many steps.
  void encode(std::string_view text, Scratch& scratch, std::vector<std::int32_t>& tokens) const;
  /// The bytes of tokens, added tokens as they are written. Part of a character is possible at both
  /// ends. Throws: Error at a token that the vocabulary lacks.
  std::string decode(std::span<const std::int32_t> tokens) const;
  /// Decodes like decode(), with `unknown` for each token that the vocabulary lacks.
  std::string decode_or(std::span<const std::int32_t> tokens, std::string_view unknown) const;

  /// Returns the largest token + 1, added tokens included.
  std::int64_t vocabulary() const;
  /// The tokens at the beginning of a text and at the end of a document, as files beside it say in
  /// the order of transformers, else by the usual names; none where there are none.
  std::optional<std::int32_t> bos() const;
  std::optional<std::int32_t> eod() const;
  /// Returns where text ends, by generation_config.json or config.json beside the file, else eod().
  std::vector<std::int32_t> stops() const;
  /// Says where files disagree on these and what they add to the vocabulary, a sentence each.
  std::vector<std::string> warnings() const;
  /// 16 hexadecimal digits: XXH3-64 of all that decides which tokens a text becomes. Does not
  /// depend on the layout of the file, nor on what is beside it but for tokens that this adds.
  std::string hash() const;

 private:
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts);
  std::shared_ptr<const Parts> parts_;  // shared with each Scratch
};

}  // namespace trireme::data
