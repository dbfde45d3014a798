// SmallTokenizer: a tokenizer.json of GPT-2's kind with a few merges, and changes of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trireme/data/tokenizer.h"

#include "tests/support/scratch_directory.h"

namespace trireme::data {

class SmallTokenizer {
 public:
  /// Tokens 0 to 255 are the bytes, in the order of GPT-2's alphabet.
  SmallTokenizer() {
    for (int c = 0; c < 0x144; ++c) {
      const bool printable = (c >= '!' && c <= '~') || (c >= 0xA1 && c <= 0xFF && c != 0xAD);
      if (!printable && c < 0x100) continue;
      if (c < 0x80)
        names_.push_back(std::string(1, static_cast<char>(c)));
      else
        names_.push_back({static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))});
    }
  }
  SmallTokenizer& merge(const std::string& left, const std::string& right) {
    names_.push_back(left + right);
    merges_ += (merges_.empty() ? "[\"" : ",[\"") + left + "\",\"" + right + "\"]";
    return *this;
  }
  SmallTokenizer& add(const std::string& content, const std::string& members = "") {
    added_.emplace_back(content, members);
    return *this;
  }
  /// Replaces the value of a member: "normalizer", "pre_tokenizer", "decoder", "model_members".
  SmallTokenizer& set(const std::string& part, const std::string& json) {
    (part == "normalizer"      ? normalizer_
     : part == "pre_tokenizer" ? pretokenizer_
                               : members_) = json;
    return *this;
  }

  std::int32_t token(const std::string& name) const {
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == name) return static_cast<std::int32_t>(i);
    return -1;
  }

  std::string json() const {
    std::string vocab, added;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const bool quoted = names_[i] == "\"" || names_[i] == "\\";
      vocab += (i ? ",\"" : "\"") + std::string(quoted ? "\\" : "") + names_[i] +
               "\":" + std::to_string(i);
    }
    for (std::size_t i = 0; i < added_.size(); ++i)
      added += (i ? ",{\"id\":" : "{\"id\":") + std::to_string(names_.size() + i) +
               ",\"content\":\"" + added_[i].first + "\"" + added_[i].second + "}";
    return "{\"added_tokens\":[" + added + "],\"normalizer\":" + normalizer_ +
           ",\"pre_tokenizer\":" + pretokenizer_ + ",\"decoder\":{\"type\":\"ByteLevel\"}," +
           "\"model\":{\"type\":\"BPE\"" + members_ + ",\"vocab\":{" + vocab + "},\"merges\":[" +
           merges_ + "]}}";
  }
  Tokenizer load(const ScratchDirectory& folder) const {
    return Tokenizer::load(folder.write("tokenizer.json", json()));
  }

 private:
  std::vector<std::string> names_;
  std::string merges_, members_;
  std::vector<std::pair<std::string, std::string>> added_;
  std::string normalizer_ = "null";
  std::string pretokenizer_ = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}";
};

}  // namespace trireme::data
