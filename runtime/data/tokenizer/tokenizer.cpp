#include "trireme/data/tokenizer.h"

#include <fstream>

#include "trireme/core/error.h"

#include "runtime/core/files/other_files.h"
#include "runtime/data/tokenizer/bpe.h"
#include "runtime/data/tokenizer/bpe_cache.h"
#include "runtime/data/tokenizer/normalizer.h"
#include "runtime/data/tokenizer/pretokenizer.h"
#include "runtime/data/tokenizer/tokenizer_added.h"
#include "runtime/data/tokenizer/tokenizer_definition.h"
#include "runtime/data/tokenizer/tokenizer_names.h"
#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
namespace {

/// Bytes of all tokens, one after the other.
class TokenTexts {
 public:
  TokenTexts(const TokenizerDefinition& definition) : definition_(&definition) {
    for (const auto& [token, text] : definition.vocabulary) place(token, bytes_of(text));
    for (const AddedToken& added : definition.added) place(added.id, added.content);
    definition_ = nullptr;
  }
  std::size_t size() const { return places_.size(); }
  bool has(Token token) const {
    return token >= 0 && static_cast<std::size_t>(token) < size() &&
           places_[static_cast<std::size_t>(token)].bytes >= 0;
  }
  std::string_view text(Token token) const {
    const Place& place = places_[static_cast<std::size_t>(token)];
    return std::string_view(texts_).substr(place.begin, static_cast<std::size_t>(place.bytes));
  }

 private:
  static constexpr std::size_t most_bytes = 1 << 20;  // of a token, where the decoder changes it
  struct Place {
    std::size_t begin = 0;
    Index bytes = -1;  // -1: there is no such token
  };
  void place(Token token, const std::string& text) {
    const auto at = static_cast<std::size_t>(token);
    if (at >= places_.size()) places_.resize(at + 1);
    places_[at] = {texts_.size(), static_cast<Index>(text.size())};
    texts_ += text;
  }
  std::string bytes_of(std::string text) const {
    if (std::string bytes; definition_->decoder.byte_level)
      return bytes_of_alphabet(text, bytes) ? bytes : text;
    if (text.size() == 6 && text.starts_with("<0x"))
      for (int byte = 0; byte < 256; ++byte)
        if (name_of_byte(static_cast<unsigned char>(byte)) == text)
          return std::string(1, static_cast<char>(byte));
    for (const auto& [pattern, content] : definition_->decoder.replace) {
      std::string replaced;
      replace_all(text, pattern, content, most_bytes, replaced);
      text = std::move(replaced);
    }
    return text;
  }

  const TokenizerDefinition* definition_;  // while it is made
  std::string texts_;
  std::vector<Place> places_;
};

/// Those that are searched for in the text as it is, or in normalized text.
AddedTokens added_tokens(const TokenizerDefinition& definition, const Normalizer& normalizer,
                         bool normalized) {
  std::vector<AddedTokens::Entry> entries;
  Normalizer::Memory memory = normalizer.make_memory();
  for (const AddedToken& added : definition.added) {
    if (added.normalized != normalized) continue;
    const std::string text(normalized ? normalizer.apply(added.content, memory) : added.content);
    if (!text.empty()) entries.push_back({text, added.id, added.left_strip, added.right_strip});
  }
  return AddedTokens(std::move(entries));
}

}  // namespace

struct Tokenizer::Parts {
  explicit Parts(const TokenizerDefinition& definition, Ends found)
      : normalizer(definition.normalizer),
        bpe(definition),
        pretokenizer(definition.pretokenizer, bpe.marks_begin_words()),
        added(added_tokens(definition, normalizer, false)),
        added_normalized(added_tokens(definition, normalizer, true)),
        texts(definition),
        strip_spaces(definition.decoder.strip_spaces),
        ends(std::move(found)),
        hash(hash_of(definition)) {}

  Normalizer normalizer;
  Bpe bpe;
  Pretokenizer pretokenizer;
  AddedTokens added, added_normalized;
  TokenTexts texts;
  Index strip_spaces;
  Ends ends;
  std::string hash;
};

struct Tokenizer::Scratch::State {
  std::shared_ptr<const Parts> parts;  // of the tokenizer that the rest belongs to
  WordCache cache;
  Pretokenizer::Memory pretokenizer;
  Normalizer::Memory normalizer;
  Bpe::Memory bpe;
};

Tokenizer::Scratch::Scratch() : state_(new State) {}
Tokenizer::Scratch::Scratch(Scratch&& other) noexcept = default;
Tokenizer::Scratch& Tokenizer::Scratch::operator=(Scratch&& other) noexcept = default;
Tokenizer::Scratch::~Scratch() = default;
void Tokenizer::Scratch::while_encoding(std::function<void()> f) {
  state_->bpe.while_encoding = std::move(f);
}

Tokenizer::Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&& other) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&& other) noexcept = default;
Tokenizer::~Tokenizer() = default;

/// What is beside the place of a tokenizer.json, as a clause.
static std::string instead_of_file(const std::filesystem::path& file) {
  const std::string directory = file.parent_path().string();
  std::error_code unknown;
  const std::string asked = directory.empty() ? "." : directory;
  const std::string other = instead_of(
      FilesOf::tokenizer, std::filesystem::is_directory(asked, unknown) ? asked : file.string());
  return other.empty() ? "" : "; " + other;
}

/// The first bytes; none where it cannot be read.
static std::string beginning_of(const std::string& file) {
  std::string begin(64, '\0');
  std::error_code unknown;
  std::ifstream in;
  if (std::filesystem::is_regular_file(file, unknown)) in.open(file, std::ios::binary);
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(in.gcount()));
  return begin;
}

/// What has another name may be a tokenizer.json too; if it is none, its name or its beginning says
/// what it is.
static TokenizerDefinition read_file(const std::string& file) {
  try {
    return read_tokenizer(file);
  } catch (const Error&) {
    if (const std::string what = what_begins_so(beginning_of(file)); !what.empty())
      throw Error(str(file, ": ", what));
    const std::string other = what_is_named_so(FilesOf::tokenizer, file);
    if (other.empty()) throw;
    throw Error(str(file, ": this is ", other));
  }
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  std::error_code ignored, unknown;  // unknown: why opening it will fail as well
  const bool is_directory = std::filesystem::is_directory(path, ignored);
  const std::filesystem::path file = is_directory ? path / "tokenizer.json" : path;
  require(std::filesystem::exists(file, unknown) || unknown, file.string(),
          ": there is no such file", instead_of_file(file));
  TokenizerDefinition definition = read_file(file.string());
  Ends ends = find_ends(definition, file.parent_path());
  return Tokenizer(std::make_shared<const Parts>(definition, std::move(ends)));
}

namespace {

/// Appends the tokens of pieces.
class Encoder {
 public:
  Encoder(const Bpe& bpe, WordCache& cache, Bpe::Memory& memory, std::vector<Token>& tokens)
      : bpe_(bpe), cache_(cache), memory_(memory), tokens_(tokens) {}

  void add(Token token) {
    if (count_ + WordCache::most_tokens > pending_.size()) flush();
    pending_[count_++] = token;
  }
  void add(std::string_view piece, const char* readable_end) {
    if (piece.size() > WordCache::longest_word) return add_tokens(bpe_.encode(piece, memory_));
    const WordCache::Key key = WordCache::key_of(piece, readable_end);
    WordCache::Entry& entry = cache_.entry(key);
    if (!(entry.key == key)) {
      const std::vector<Token>& found = bpe_.encode(piece, memory_);
      if (found.size() > WordCache::most_tokens) return add_tokens(found);
      entry.key = key;
      entry.count = static_cast<std::int32_t>(found.size());
      std::copy(found.begin(), found.end(), entry.tokens.begin());
    }
    if (count_ + WordCache::most_tokens > pending_.size()) flush();
    std::memcpy(&pending_[count_], entry.tokens.data(), sizeof entry.tokens);
    count_ += static_cast<std::size_t>(entry.count);
  }

  /// To be called at the end.
  void flush() {
    tokens_.insert(tokens_.end(), pending_.begin(),
                   pending_.begin() + static_cast<std::ptrdiff_t>(count_));
    count_ = 0;
    if (++flushes_ % flushes_between_pauses == 0) memory_.pause();
  }

 private:
  static constexpr std::size_t flushes_between_pauses = 256;  // about a MiB of text
  void add_tokens(const std::vector<Token>& found) {
    flush();
    tokens_.insert(tokens_.end(), found.begin(), found.end());
  }

  const Bpe& bpe_;
  WordCache& cache_;
  Bpe::Memory& memory_;
  std::vector<Token>& tokens_;
  std::array<Token, 1024> pending_;
  std::size_t count_ = 0, flushes_ = 0;
};

}  // namespace

void Tokenizer::encode(std::string_view text, Scratch& scratch,
                       std::vector<std::int32_t>& tokens) const {
  const std::size_t invalid = first_invalid(text);
  require(invalid == text.size(), "byte ", invalid, " of the text is not UTF-8");
  Scratch::State& state = *scratch.state_;
  if (state.parts != parts_) {
    state.cache.clear();
    state.pretokenizer = parts_->pretokenizer.make_memory();
    state.normalizer = parts_->normalizer.make_memory();
    state.parts = parts_;
  }
  const std::size_t before = tokens.size();
  try {
    Encoder encoder(parts_->bpe, state.cache, state.bpe, tokens);
    const auto take = [&](std::string_view piece, const char* end) { encoder.add(piece, end); };
    const auto add = [&](Token token) { encoder.add(token); };
    const auto cut = [&](std::string_view piece, bool first) {
      const std::string_view normal = parts_->normalizer.apply(piece, state.normalizer);
      const char* const begin = state.normalizer.left_out_beginning ? nullptr : normal.data();
      parts_->added_normalized.split(
          normal,
          [&](std::string_view part) {
            parts_->pretokenizer.cut(part, first && part.data() == begin, state.pretokenizer, take);
          },
          add);
    };
    parts_->added.split(
        text, [&](std::string_view piece) { cut(piece, piece.data() == text.data()); }, add);
    encoder.flush();
  } catch (...) {
    tokens.resize(before);
    throw;
  }
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  for (const Token token : tokens)
    require(parts_->texts.has(token), "the vocabulary has no token ", token);
  return decode_or(tokens, "");
}

std::string Tokenizer::decode_or(std::span<const std::int32_t> tokens,
                                 std::string_view unknown) const {
  std::string text;
  for (const Token token : tokens)
    text += parts_->texts.has(token) ? parts_->texts.text(token) : unknown;
  Index strip = 0;
  while (strip < parts_->strip_spaces && static_cast<std::size_t>(strip) < text.size() &&
         text[static_cast<std::size_t>(strip)] == ' ')
    ++strip;
  return text.substr(static_cast<std::size_t>(strip));
}

std::int64_t Tokenizer::vocabulary() const {
  return static_cast<std::int64_t>(parts_->texts.size());
}
std::optional<std::int32_t> Tokenizer::bos() const { return parts_->ends.bos; }
std::optional<std::int32_t> Tokenizer::eod() const { return parts_->ends.eod; }
std::vector<std::int32_t> Tokenizer::stops() const { return parts_->ends.stops; }
std::vector<std::string> Tokenizer::warnings() const { return parts_->ends.warnings; }
std::string Tokenizer::hash() const { return parts_->hash; }

}  // namespace trireme::data
