// Configuration files: the part of TOML that options need. Lines of `key = value`, where a value is
// a number, true, false, a text in quotes or a list of these; [sections] and comments. All other
// TOML (dates, tables in braces, lists of sections, dotted keys, texts over several lines) is
// rejected, and so is everything that is not TOML. We have our own reader because no TOML library
// is packaged for all systems that trireme runs on, and because it finds all mistakes of a file at
// once.
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::options {

/// A line `key = value`, or a mistake.
struct ConfigLine {
  int line = 0;
  std::string mistake;              // what is wrong; then nothing else counts
  std::string key;                  // as written, without quotes
  std::vector<std::string> values;  // numbers in decimal without underscores: "1_000" is "1000"
  bool list = false;                // in brackets
  bool quoted = false;              // all values are texts in quotes
};

/// All lines with content. After a mistake inside brackets nothing more is read.
std::vector<ConfigLine> read_config(std::string_view text);

/// At most `most` bytes of a text for a message, control characters as '?'.
std::string shortened(std::string_view text, std::size_t most = 100);

}  // namespace trireme::options
