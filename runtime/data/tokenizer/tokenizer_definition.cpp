#include "runtime/data/tokenizer/tokenizer_definition.h"

#include <array>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#define XXH_NO_INLINE_HINTS 1  // gcc -Og cannot inline what it is forced to
#include <xxhash.h>

#include "trireme/core/error.h"

#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
namespace {

/// GPT-2's alphabet: printable bytes of Latin-1 stand for themselves, the others for characters
/// from U+0100 on, in order.
constexpr std::array<short, 0x144> byte_of_character = [] {
  std::array<short, 0x144> bytes = {};
  bytes.fill(-1);
  short next = 0x100;
  for (short byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
                           (byte >= 0xAE && byte <= 0xFF);
    bytes[static_cast<std::size_t>(printable ? byte : next++)] = byte;
  }
  return bytes;
}();

constexpr std::array<char32_t, 256> character_of_byte = [] {
  std::array<char32_t, 256> characters = {};
  for (char32_t c = 0; c < byte_of_character.size(); ++c)
    if (byte_of_character[c] >= 0) characters[static_cast<std::size_t>(byte_of_character[c])] = c;
  return characters;
}();

/// A hash of values one after the other, texts with their lengths.
class Hash {
 public:
  Hash() : state_(XXH3_createState()) {
    require(state_ != nullptr && XXH3_64bits_reset(state_.get()) == XXH_OK, "no memory for a hash");
  }
  void add(std::int64_t number) { add_bytes(&number, sizeof number); }
  void add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    add_bytes(text.data(), text.size());
  }
  std::uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  void add_bytes(const void* data, std::size_t bytes) {
    require(XXH3_64bits_update(state_.get(), data, bytes) == XXH_OK, "cannot hash");
  }
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace

bool bytes_of_alphabet(std::string_view text, std::string& bytes) {
  bytes.clear();
  for (std::size_t at = 0; at < text.size(); at += character_bytes(text[at])) {
    const char32_t character = character_at(&text[at]);
    const int byte = character < byte_of_character.size() ? byte_of_character[character] : -1;
    if (byte < 0) return false;
    bytes += static_cast<char>(byte);
  }
  return true;
}

void append_in_alphabet(std::string_view bytes, std::string& text) {
  for (const char byte : bytes)
    append_character(character_of_byte[static_cast<unsigned char>(byte)], text);
}

bool is_byte_of_utf8(unsigned char byte) { return byte < 0xC0 || (byte > 0xC1 && byte < 0xF5); }

std::string name_of_byte(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

std::string hash_of(const TokenizerDefinition& definition) {
  Hash hash;
  const auto count = [&](const auto& list) { hash.add(static_cast<std::int64_t>(list.size())); };
  hash.add(static_cast<std::int64_t>(definition.symbols));
  hash.add(definition.whole_words_first);
  // What came after the first hashes counts where it is used, so that those stay.
  if (definition.unknown >= 0) hash.add(definition.unknown), hash.add(definition.fuse_unknown);
  const auto add_step = [&](const PretokenizerStep& step) {
    hash.add(static_cast<std::int64_t>(step.kind)), hash.add(step.text);
    const auto behavior = static_cast<std::int64_t>(step.behavior);
    if (behavior != 0 || step.invert) hash.add(behavior), hash.add(step.invert);
  };
  count(definition.vocabulary);
  for (const auto& [token, text] : definition.vocabulary) hash.add(token), hash.add(text);
  count(definition.merges);
  for (const Merge& merge : definition.merges) hash.add(merge.left), hash.add(merge.right);
  count(definition.normalizer);
  for (const NormalizerStep& step : definition.normalizer)
    hash.add(static_cast<std::int64_t>(step.kind)), hash.add(step.pattern), hash.add(step.content);
  count(definition.pretokenizer);
  for (const PretokenizerStep& step : definition.pretokenizer) add_step(step);
  count(definition.added);
  for (const AddedToken& added : definition.added) {
    hash.add(added.id);
    hash.add(added.content);
    hash.add(added.left_strip | added.right_strip << 1 | added.normalized << 2);
  }
  return fmt::format("{:016x}", hash.value());
}

}  // namespace trireme::data
