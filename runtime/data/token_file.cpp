#include "trireme/data/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "trireme/core/error.h"

#include "runtime/core/files/other_files.h"
#include "runtime/data/data_file.h"
#include "runtime/data/token_layout.h"

namespace trireme {

using namespace data;

using namespace data::token_layout;

const char* name(TokenType type) {
  switch (type) {
    case TokenType::u8:
      return "u8";
    case TokenType::i8:
      return "i8";
    case TokenType::i16:
      return "i16";
    case TokenType::i32:
      return "i32";
    case TokenType::i64:
      return "i64";
    case TokenType::u16:
      return "u16";
  }
  return "?";
}

Index size_bytes(TokenType type) {
  return with_type(type, [](auto x) { return static_cast<Index>(sizeof x); });
}

TokenType token_type_for(Index vocabulary) {
  if (vocabulary <= 256) return TokenType::u8;
  return vocabulary <= 65536 ? TokenType::u16 : TokenType::i32;
}

namespace {
/// Throws: Error when `prefix` is the name of one of the two files.
std::string index_path(const std::string& prefix) {
  std::string path = prefix + ".idx";
  const std::string plain = prefix.ends_with(".bin") ? prefix.substr(0, prefix.size() - 4) : prefix;
  const std::string other = instead_of(FilesOf::tokens, plain);
  require(other.empty(), other);
  for (const std::string extension : {".bin", ".idx"})
    require(!prefix.ends_with(extension) || std::filesystem::exists(path), prefix,
            ": give the prefix, without ", extension, ": ",
            prefix.substr(0, prefix.size() - extension.size()));
  return path;
}
}  // namespace

struct TokenFile::State {
  std::string prefix;
  DataFile index, bin;
  TokenType type{};
  Index sequences = 0, document_entries = 0, tokens = 0;
  Index lengths_at = 0, offsets_at = 0, boundaries_at = 0;

  explicit State(const std::string& prefix_)
      : prefix(prefix_), index(index_path(prefix_)), bin(prefix_ + ".bin") {
    check_header();
    check_sequences();
    check_documents();
  }

  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    require(condition, index.path(), ": ", parts...);
  }

  void check_header() {
    check(index.bytes() >= arrays_at, "has ", index.bytes(), " bytes, too few for the header of ",
          arrays_at, "; the file is truncated");
    std::array<char, sizeof magic> begin;
    index.read(0, begin.data(), sizeof magic);
    check(std::memcmp(begin.data(), magic, sizeof magic) == 0,
          "does not begin with MMIDIDX; it is not the index of a Megatron dataset");
    const auto found_version = index.at<std::uint64_t>(version_at);
    check(found_version == version, "has version ", found_version, "; known is ", version);
    const int code = index.at<std::uint8_t>(type_at);
    check(code != 6 && code != 7, "token type ", code, " is floating point; tokens are integers");
    check((code >= 1 && code <= 5) || code == 8, "token type ", code,
          " is unknown; known are 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16");
    type = static_cast<TokenType>(code);
    check_size();
  }

  void check_size() {
    const auto s = index.at<std::uint64_t>(sequences_at), d = index.at<std::uint64_t>(documents_at);
    // Compare before multiplying: damaged counts may be astronomical.
    const auto bytes = static_cast<std::uint64_t>(index.bytes());
    const bool sane = s <= bytes && d <= bytes;
    const auto wanted =
        static_cast<Index>(sane ? static_cast<std::uint64_t>(arrays_at) + 12 * s + 8 * d : 0);
    check(sane && wanted <= index.bytes(), "has ", index.bytes(), " bytes, too few for ", s,
          " sequences and ", d, " document boundaries; the file is truncated or damaged");
    sequences = static_cast<Index>(s);
    document_entries = static_cast<Index>(d);
    const Index extra = index.bytes() - wanted;
    check(extra == 0 || extra != sequences,
          "has a mode for each sequence: a multimodal dataset, which is not supported");
    check(extra == 0, "has ", extra, " bytes more than its ", s, " sequences and ", d,
          " document boundaries need");
    lengths_at = arrays_at;
    offsets_at = lengths_at + length_bytes * sequences;
    boundaries_at = offsets_at + offset_bytes * sequences;
  }

  // Sequences lie one after the other, so the .bin is one row of tokens.
  void check_sequences() {
    const Index token_bytes = size_bytes(type);
    constexpr Index piece = 1024;  // sequences; their lengths and offsets are stored apart
    std::array<std::int32_t, piece> lengths;
    for (Index first = 0; first < sequences; first += piece) {
      const Index count = std::min(piece, sequences - first);
      index.read(lengths_at + length_bytes * first, lengths.data(), length_bytes * count);
      const auto check_sequence = [&](Index i, Index offset) {
        const Index length = lengths[static_cast<std::size_t>(i)];
        check(length >= 0, "sequence ", first + i, " has ", length, " tokens");
        check(offset == tokens * token_bytes, "sequence ", first + i, " begins at byte ", offset,
              " of ", bin.path(), "; the sequences before it end at byte ", tokens * token_bytes);
        tokens += length;
      };
      index.for_each<std::int64_t>(offsets_at + offset_bytes * first, count, check_sequence);
    }
    require(bin.bytes() == tokens * token_bytes, bin.path(), ": has ", bin.bytes(), " bytes; ",
            index.path(), " speaks of ", tokens, " tokens of ", token_bytes, " bytes, which makes ",
            tokens * token_bytes);
  }

  Index boundary(Index d) const {
    return index.at<std::int64_t>(boundaries_at + document_bytes * d);
  }

  void check_documents() const {
    check(document_entries >= 1, "has no document boundaries; there is at least a 0");
    Index begin = 0;
    index.for_each<std::int64_t>(boundaries_at, document_entries, [&](Index d, Index end) {
      check(d > 0 || end == 0, "the first document begins at sequence ", end, ", not 0");
      check(end >= begin && end <= sequences, "document ", d - 1, " ends at sequence ", end,
            "; it begins at ", begin, " and there are ", sequences);
      begin = end;
    });
    check(begin == sequences, "the last document ends at sequence ", begin, ", but there are ",
          sequences);
  }

  // Calls use(position in out, token) for each token.
  template <class Use>
  void for_each(Index first, Index count, Use use) const {
    require(first >= 0 && count >= 0 && first + count <= tokens, prefix, ": tokens [", first, ", ",
            first + count, ") of ", tokens);
    with_type(type, [&](auto zero) {
      using Stored = decltype(zero);
      bin.for_each<Stored>(
          first * static_cast<Index>(sizeof(Stored)), count,
          [&](Index i, Stored token) { use(i, static_cast<std::int64_t>(token)); });
    });
  }
};

TokenFile::TokenFile(const std::string& prefix) : state_(std::make_unique<State>(prefix)) {}
TokenFile::TokenFile(TokenFile&&) noexcept = default;
TokenFile::~TokenFile() = default;

const std::string& TokenFile::prefix() const { return state_->prefix; }
TokenType TokenFile::type() const { return state_->type; }
Index TokenFile::tokens() const { return state_->tokens; }
Index TokenFile::sequences() const { return state_->sequences; }
Index TokenFile::documents() const { return state_->document_entries - 1; }

Index TokenFile::document_begin(Index d) const {
  require(d >= 0 && d <= documents(), prefix(), ": document ", d, " of ", documents());
  const Index sequence = state_->boundary(d);
  if (sequence == state_->sequences) return state_->tokens;
  return state_->index.at<std::int64_t>(state_->offsets_at + offset_bytes * sequence) /
         size_bytes(state_->type);
}

void TokenFile::read(Index first, std::span<std::int32_t> out, Index vocabulary) const {
  state_->for_each(first, static_cast<Index>(out.size()), [&](Index i, std::int64_t token) {
    require(token >= 0 && token < vocabulary, state_->bin.path(), ": token ", token,
            " at position ", first + i, " is outside the vocabulary of ", vocabulary,
            "; 'trireme data inspect ", prefix(), "' shows the smallest and the largest");
    out[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(token);
  });
}

void TokenFile::read(Index first, std::span<std::int64_t> out) const {
  state_->for_each(first, static_cast<Index>(out.size()),
                   [&](Index i, std::int64_t token) { out[static_cast<std::size_t>(i)] = token; });
}

}  // namespace trireme
