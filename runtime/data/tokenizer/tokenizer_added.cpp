#include "runtime/data/tokenizer/tokenizer_added.h"

#include <algorithm>

#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
AddedTokens::AddedTokens(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.text < b.text; });
  for (const Entry& entry : entries_) first_[static_cast<unsigned char>(entry.text[0])] = true;
  one_first_ = std::count(first_.begin(), first_.end(), true) == 1;
  if (one_first_) only_first_ = entries_.front().text[0];
}

const AddedTokens::Entry* AddedTokens::longest_at(std::string_view text) const {
  const Entry* longest = nullptr;
  auto first = entries_.begin(), last = entries_.end();  // those that agree so far
  for (std::size_t i = 0; i < text.size() && first != last; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto at = [i](const Entry& entry) {
      return i < entry.text.size() ? static_cast<unsigned char>(entry.text[i]) : -1;
    };
    first = std::partition_point(first, last, [&](const Entry& entry) { return at(entry) < byte; });
    last = std::partition_point(first, last, [&](const Entry& entry) { return at(entry) <= byte; });
    if (first != last && first->text.size() == i + 1) longest = &*first;
  }
  return longest;
}

const AddedTokens::Entry* AddedTokens::find(std::string_view text, std::size_t& at) const {
  for (; at < text.size(); ++at) {
    if (one_first_) {
      at = text.find(only_first_, at);
      if (at == text.npos) break;
    } else if (!first_[static_cast<unsigned char>(text[at])]) {
      continue;
    }
    if (const Entry* entry = longest_at(text.substr(at))) return entry;
  }
  return nullptr;
}

void AddedTokens::split(std::string_view text, FunctionRef<void(std::string_view)> between,
                        FunctionRef<void(Token)> found) const {
  std::size_t done = 0;
  if (!entries_.empty()) {
    std::size_t at = 0;
    while (const Entry* entry = find(text, at)) {
      std::size_t begin = at, end = at += entry->text.size();
      if (entry->left_strip && done < begin)
        begin -= trailing_white_space(text.substr(done, begin - done));
      if (entry->right_strip) end += leading_white_space(text.substr(end));
      if (done < begin) between(text.substr(done, begin - done));
      found(entry->token);
      done = end;
    }
  }
  if (done < text.size()) between(text.substr(done));
}

}  // namespace trireme::data
