#include "runtime/data/prepare/encoder.h"

#include <algorithm>

#include "trireme/data/sidecar.h"
#include "trireme/data/tokenizer.h"

#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
namespace {

class ByteEncoder final : public TextEncoder {
 public:
  std::unique_ptr<Worker> worker() const override { return std::make_unique<Bytes>(); }
  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::string text(tokens.size(), '\0');
    std::transform(tokens.begin(), tokens.end(), text.begin(),
                   [](std::int32_t token) { return static_cast<char>(token); });
    return text;
  }
  std::string decode_or(std::span<const std::int32_t> tokens,
                        std::string_view unknown) const override {
    std::string text;
    for (const std::int32_t token : tokens)
      if (0 <= token && token < vocabulary())
        text += static_cast<char>(token);
      else
        text += unknown;
    return text;
  }
  Index vocabulary() const override { return 256; }
  std::optional<Index> bos() const override { return std::nullopt; }
  std::optional<Index> eod() const override { return std::nullopt; }
  std::string hash() const override { return Sidecar::bytes; }
  bool of_bytes() const override { return true; }

 private:
  class Bytes final : public Worker {
   public:
    void encode(std::string_view text, std::vector<std::int32_t>& tokens) override {
      // Not reserve(), which would grow by one document at a time: a block has many.
      tokens.resize(tokens.size() + text.size());
      std::transform(text.begin(), text.end(), tokens.end() - static_cast<Index>(text.size()),
                     [](char c) { return static_cast<unsigned char>(c); });
    }
  };
};

class TokenizerEncoder final : public TextEncoder {
 public:
  explicit TokenizerEncoder(const std::string& path) : tokenizer_(Tokenizer::load(path)) {}
  std::unique_ptr<Worker> worker() const override { return std::make_unique<Words>(tokenizer_); }
  std::string decode(std::span<const std::int32_t> tokens) const override {
    return tokenizer_.decode(tokens);
  }
  std::string decode_or(std::span<const std::int32_t> tokens,
                        std::string_view unknown) const override {
    return tokenizer_.decode_or(tokens, unknown);
  }
  Index vocabulary() const override { return tokenizer_.vocabulary(); }
  std::optional<Index> bos() const override { return tokenizer_.bos(); }
  std::optional<Index> eod() const override { return tokenizer_.eod(); }
  std::vector<std::int32_t> stops() const override { return tokenizer_.stops(); }
  std::vector<std::string> warnings() const override { return tokenizer_.warnings(); }
  std::string hash() const override { return tokenizer_.hash(); }
  bool of_bytes() const override { return false; }

 private:
  class Words final : public Worker {
   public:
    explicit Words(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
    void encode(std::string_view text, std::vector<std::int32_t>& tokens) override {
      tokenizer_.encode(text, scratch_, tokens);
      if (text.size() <= long_text) return;
      scratch_ = {};
      scratch_.while_encoding(while_encoding_);
    }
    void while_encoding(std::function<void()> f) override {
      while_encoding_ = std::move(f);
      scratch_.while_encoding(while_encoding_);
    }

   private:
    static constexpr std::size_t long_text = 16 << 20;  // its working memory is not kept
    const Tokenizer& tokenizer_;
    std::function<void()> while_encoding_;
    Tokenizer::Scratch scratch_;
  };

  Tokenizer tokenizer_;
};

}  // namespace

std::vector<std::int32_t> TextEncoder::stops() const {
  const std::optional<Index> end = eod();
  return end ? std::vector{static_cast<std::int32_t>(*end)} : std::vector<std::int32_t>();
}

std::string decode_from(std::size_t first, std::span<const std::int32_t> tokens,
                        const TextEncoder& encoder) {
  // All of them together: some tokenizers leave out a space at the beginning of a text.
  const std::size_t before = encoder.decode_or(tokens.first(first), replacement).size();
  return encoder.decode_or(tokens, replacement).substr(before);
}

std::unique_ptr<TextEncoder> byte_encoder() { return std::make_unique<ByteEncoder>(); }
std::unique_ptr<TextEncoder> tokenizer_encoder(const std::string& path) {
  return std::make_unique<TokenizerEncoder>(path);
}

}  // namespace trireme::data
