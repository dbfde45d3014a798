#include "runtime/data/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "trireme/core/error.h"

#include "runtime/core/show_bytes.h"
#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
namespace {

using Symbols = TokenizerDefinition::Symbols;

constexpr std::size_t longest_short_piece = 64;      // symbols
constexpr std::size_t longest_kept_piece = 1 << 20;  // symbols; memory of longer ones is not kept
constexpr std::uint32_t none = ~std::uint32_t{0};
constexpr std::size_t steps_between_pauses = 1 << 18;  // some hundredths of a second

bool has_mark_behind_other(std::string_view text) {
  std::size_t behind_mark = 0;
  for (std::size_t at = 0; (at = text.find(space_mark, at)) != text.npos;) {
    if (at != behind_mark) return true;
    behind_mark = at += space_mark.size();
  }
  return false;
}

/// Before the neighbours and the queue of a piece are made, and its tokens are copied.
void require_memory(std::size_t symbols, Index free) {
  constexpr Index of_symbol =
      2 * sizeof(std::uint32_t) + sizeof(Bpe::Memory::Candidate) + sizeof(Token);
  const Index needed = static_cast<Index>(symbols) * of_symbol;
  require(needed <= free, "a piece of ", symbols, " symbols that the tokenizer does not cut takes ",
          show_bytes(needed), " of memory, and ", show_bytes(free), " are free");
}

/// Also of whole words that would be found before they are cut.
bool marks_begin_words_of(const TokenizerDefinition& definition) {
  std::vector<bool> made(static_cast<std::size_t>(token_limit), definition.whole_words_first);
  for (const Merge& merge : definition.merges) made[static_cast<std::size_t>(merge.whole)] = true;
  return std::none_of(
      definition.vocabulary.begin(), definition.vocabulary.end(), [&](const auto& entry) {
        return made[static_cast<std::size_t>(entry.first)] && has_mark_behind_other(entry.second);
      });
}

}  // namespace

MergeTable::MergeTable(const std::vector<Merge>& merges)
    : slots_(std::bit_ceil(merges.size() * 2 + 2)), mask_(slots_.size() - 1) {
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::uint64_t pair = key(merges[rank].left, merges[rank].right);
    std::size_t at = slot(pair);
    while (slots_[at].pair != empty && slots_[at].pair != pair) at = (at + 1) & mask_;
    slots_[at] = {pair, {static_cast<std::uint32_t>(rank), merges[rank].whole}};
  }
}

Bpe::Bpe(const TokenizerDefinition& definition)
    : kind_(definition.symbols),
      unknown_(definition.unknown),
      fuse_unknown_(definition.fuse_unknown),
      merges_(definition.merges),
      marks_begin_words_(kind_ == Symbols::characters && unknown_ < 0 &&
                         marks_begin_words_of(definition)) {
  bytes_.fill(-1);
  std::unordered_map<std::string_view, Token> by_name;
  if (kind_ == Symbols::characters)
    for (const auto& [token, text] : definition.vocabulary) by_name.emplace(text, token);
  std::string bytes;
  for (const auto& [token, text] : definition.vocabulary) {
    const bool mapped = kind_ == Symbols::bytes && bytes_of_alphabet(text, bytes);
    if (mapped && bytes.size() == 1) bytes_[static_cast<unsigned char>(bytes[0])] = token;
    if (kind_ == Symbols::characters && !text.empty() && character_bytes(text[0]) == text.size())
      characters_.emplace(character_at(text.data()), token);
    if (definition.whole_words_first && (mapped || kind_ == Symbols::characters))
      words_.emplace(mapped ? bytes : text, token);
  }
  if (kind_ == Symbols::characters && definition.byte_fallback)
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const auto found = by_name.find(name_of_byte(static_cast<unsigned char>(i)));
      if (found != by_name.end()) bytes_[i] = found->second;
    }
}

void Bpe::add_symbols(std::string_view piece, std::vector<Token>& symbols) const {
  const auto add_bytes = [&](std::string_view text) {
    for (char byte : text) symbols.push_back(bytes_[static_cast<unsigned char>(byte)]);
  };
  symbols.clear();
  if (kind_ == Symbols::bytes) return add_bytes(piece);
  bool was_unknown = false;
  for (std::size_t at = 0, bytes; at < piece.size(); at += bytes) {
    bytes = character_bytes(piece[at]);
    const auto found = characters_.find(character_at(&piece[at]));
    const bool is_unknown = found == characters_.end() && unknown_ >= 0;
    if (found != characters_.end())
      symbols.push_back(found->second);
    else if (!is_unknown)
      add_bytes(piece.substr(at, bytes));
    else if (!was_unknown || !fuse_unknown_)
      symbols.push_back(unknown_);
    was_unknown = is_unknown;
  }
}

const std::vector<Token>& Bpe::encode(std::string_view piece, Memory& memory) const {
  if (!words_.empty()) {
    const auto whole = words_.find(std::string(piece));
    if (whole != words_.end()) return memory.symbols.assign(1, whole->second), memory.symbols;
  }
  add_symbols(piece, memory.symbols);
  if (memory.symbols.size() <= longest_short_piece)
    merge_short(memory);
  else
    merge_long(memory);
  return memory.symbols;
}

/// Looks at all pairs for each merge: quick for few symbols.
void Bpe::merge_short(Memory& memory) const {
  std::array<RankedMerge, longest_short_piece> merges;
  std::vector<Token>& symbols = memory.symbols;
  std::size_t count = symbols.size();
  const auto find = [&](std::size_t i) {
    merges[i] = i + 1 < count ? merges_.find(symbols[i], symbols[i + 1]) : no_merge;
  };
  for (std::size_t i = 0; i < count; ++i) find(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (merges[i].rank < merges[best].rank) best = i;
    if (merges[best].whole < 0) break;
    symbols[best] = merges[best].whole;
    --count;
    for (std::size_t i = best + 1; i < count; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i] = merges[i + 1];
    }
    find(best);
    if (best > 0) find(best - 1);
  }
  symbols.resize(count);
}

/// Puts the merge of the symbol `at` and the next one, if there is one, into the queue.
void Bpe::offer(std::uint32_t at, Memory& memory) const {
  const std::uint32_t behind = memory.behind[at];
  if (behind == none) return;
  const Token left = memory.symbols[at], right = memory.symbols[behind];
  const RankedMerge merge = merges_.find(left, right);
  if (merge.whole < 0) return;
  memory.queue.push_back({merge.rank, at, left, right, merge.whole});
  std::push_heap(memory.queue.begin(), memory.queue.end(), std::greater<>());
}

/// A list of symbols, and a queue of merges: n log n for n symbols.
void Bpe::merge_long(Memory& memory) const {
  std::vector<Token>& symbols = memory.symbols;
  require(symbols.size() < none, "a piece of ", symbols.size(), " bytes is longer than 4 GiB");
  const bool is_kept = symbols.size() <= longest_kept_piece;
  if (!is_kept) require_memory(symbols.size(), memory.free_memory());
  const auto count = static_cast<std::uint32_t>(symbols.size());
  memory.before.resize(count);
  memory.behind.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    memory.before[i] = i == 0 ? none : i - 1;
    memory.behind[i] = i + 1 == count ? none : i + 1;
  }
  memory.queue.clear();
  std::size_t step = 0;
  const auto begin_step = [&] {
    if (++step % steps_between_pauses == 0) memory.pause();
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    begin_step();
    offer(i, memory);
  }
  while (!memory.queue.empty()) {
    begin_step();
    std::pop_heap(memory.queue.begin(), memory.queue.end(), std::greater<>());
    const Memory::Candidate merge = memory.queue.back();
    memory.queue.pop_back();
    const std::uint32_t right = memory.behind[merge.at];
    if (symbols[merge.at] != merge.left || right == none || symbols[right] != merge.right) continue;
    symbols[merge.at] = merge.whole;
    symbols[right] = -1;  // gone
    const std::uint32_t next = memory.behind[right];
    memory.behind[merge.at] = next;
    if (next != none) memory.before[next] = merge.at;
    offer(merge.at, memory);
    if (const std::uint32_t left = memory.before[merge.at]; left != none) offer(left, memory);
  }
  std::erase(symbols, -1);
  if (is_kept) return;
  for (std::vector<std::uint32_t>* each : {&memory.before, &memory.behind})
    std::vector<std::uint32_t>().swap(*each);
  std::vector<Memory::Candidate>().swap(memory.queue);
}

}  // namespace trireme::data
