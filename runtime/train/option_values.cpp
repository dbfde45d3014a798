// Words to values, and the kinds of options that are made of them.
#include "runtime/train/option_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace trireme {
namespace {

std::string range_of(const Whole& legal) {
  const Whole any;
  if (legal.least == any.least && legal.most == any.most) return "";
  if (legal.most == any.most) return fmt::format(" >= {}", legal.least);
  if (legal.least == any.least) return fmt::format(" <= {}", legal.most);
  return fmt::format(" from {} to {}", legal.least, legal.most);
}

std::string range_of(const Real& legal) {
  std::string range;
  if (std::isfinite(legal.least))
    range += fmt::format(" {} {}", legal.open_least ? ">" : ">=", legal.least);
  if (std::isfinite(legal.most))
    range += fmt::format("{} {} {}", range.empty() ? "" : " and",
                         legal.open_most ? "<" : "<=", legal.most);
  return range;
}

/// Levenshtein distance.
Index edit_distance(const std::string& a, const std::string& b) {
  std::vector<Index> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    Index diagonal = row[0];
    row[0] = static_cast<Index>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const Index substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

Index parse_whole(const std::string& word, const Whole& legal) {
  Index value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  require(error == std::errc() && end == word.data() + word.size(), "expected a whole number",
          range_of(legal));
  require(legal.least <= value && value <= legal.most, "expected a whole number", range_of(legal),
          "; the nearest is ", std::clamp(value, legal.least, legal.most));
  return value;
}

double parse_real(const std::string& word, const Real& legal) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  require(error == std::errc() && end == word.data() + word.size() && std::isfinite(value),
          "expected a number", range_of(legal));
  const bool low = legal.open_least ? value <= legal.least : value < legal.least;
  const bool high = legal.open_most ? value >= legal.most : value > legal.most;
  require(!low && !high, "expected a number", range_of(legal));
  return value;
}

bool parse_flag(const std::string& word) {
  if (word == "true") return true;
  if (word == "false") return false;
  throw Error("a flag is true or false");
}

std::string show_real(double value) { return fmt::format("{}", value); }

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  Index least = std::max<Index>(2, static_cast<Index>(word.size()) / 3) + 1;
  for (const std::string& candidate : candidates)
    if (const Index distance = edit_distance(word, candidate); distance < least) {
      least = distance;
      best = candidate;
    }
  if (!best.empty()) return best;
  const auto part =
      std::find_if(candidates.begin(), candidates.end(), [&](const std::string& candidate) {
        return word.size() > 3 && candidate.find(word) != std::string::npos;
      });
  return part == candidates.end() ? "" : *part;
}

void CommandLine::whole(const std::string& names, Index& value, Whole legal,
                        const std::string& help) {
  add({names, "N", help, false,
       [&value, legal](const std::vector<std::string>& words) {
         value = parse_whole(words.front(), legal);
       },
       [&value] { return std::to_string(value); }});
}

void CommandLine::real(const std::string& names, double& value, Real legal,
                       const std::string& help) {
  add({names, "X", help, false,
       [&value, legal](const std::vector<std::string>& words) {
         value = parse_real(words.front(), legal);
       },
       [&value] { return show_real(value); }});
}

void CommandLine::flag(const std::string& names, bool& value, const std::string& help) {
  add({names, "", help, false,
       [&value](const std::vector<std::string>& words) { value = parse_flag(words.front()); },
       [&value] { return std::string(value ? "true" : "false"); }});
}

void CommandLine::text(const std::string& names, std::string& value, const std::string& metavar,
                       const std::string& help) {
  add({names, metavar, help, false,
       [&value](const std::vector<std::string>& words) { value = words.front(); },
       [&value] { return value; }});
}

void CommandLine::list(const std::string& names, std::vector<std::string>& values,
                       const std::string& metavar, const std::string& help) {
  add({names, metavar, help, true,
       [&values](const std::vector<std::string>& words) { values = words; },
       [&values] {
         std::string all;
         for (const std::string& word : values) all += (all.empty() ? "" : " ") + word;
         return all;
       }});
}

}  // namespace trireme
