// Words to values, and the kinds of options that are made of them.
#include "runtime/options/option_values.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/core/parse_number.h"

namespace trireme {

using namespace options;

namespace {

std::string range_of(const Whole& legal) {
  const Whole any;
  if (legal.least == any.least && legal.most == any.most) return "";
  if (legal.most >= most_count) return fmt::format(" >= {}", legal.least);
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

bool is_legal(Index value, const Whole& legal) {
  return legal.least <= value && value <= legal.most;
}

bool is_legal(double value, const Real& legal) {
  const bool low = legal.open_least ? value <= legal.least : value < legal.least;
  const bool high = legal.open_most ? value >= legal.most : value > legal.most;
  return !low && !high;
}

/// As a float a number stays finite, and none but 0 becomes 0.
bool fits_fp32(double value) {
  const auto single = static_cast<float>(value);
  return std::isfinite(single) && (single != 0 || value == 0);
}
constexpr std::string_view fp32_range = "from 1.4e-45 to 3.4e+38";

/// Words after the range, for "8k" and the like, which is no whole number.
std::string_view why_no_unit(const std::string& word) {
  constexpr std::string_view known = "kKmMbBgGtT";
  const bool has_unit = word.size() > 1 && known.find(word.back()) != std::string_view::npos &&
                        parse_number<double>(std::string_view(word).substr(0, word.size() - 1));
  return has_unit ? ", in digits without a unit" : "";
}

constexpr std::string_view units = "KMGT";  // powers of 1024

/// The names and numbers of a model's name: "Llama3-8B" -> llama, 3, 8b.
std::vector<std::string> parts_of_model(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool alone = std::string_view("-_ ").find(c) != std::string_view::npos;
    const bool number = is_digit(c) && i > 0 && !is_digit(name[i - 1]) && name[i - 1] != '.';
    if (alone || number) parts.emplace_back();
    if (!alone) parts.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  std::erase(parts, "");
  return parts;
}

/// Whether each part of `some` begins a part of `all`, in the same order.
bool begin_in_order(const std::vector<std::string>& some, const std::vector<std::string>& all) {
  std::size_t next = 0;
  for (const std::string& part : all)
    if (next < some.size() && part.starts_with(some[next])) ++next;
  return next == some.size();
}

/// What other programs call a choice.
struct Synonym {
  std::string_view word, meaning;
};
constexpr Synonym synonyms[] = {{"gpu", "cuda"},       {"gpus", "cuda"},
                                {"nvidia", "cuda"},    {"cuda:0", "cuda"},
                                {"rotary", "rope"},    {"learned", "learned_absolute"},
                                {"silu", "swiglu"},    {"swish", "swiglu"},
                                {"gelu", "gelu-tanh"}, {"gelu_new", "gelu-tanh"}};

/// How many letters are left out, added, replaced, or swapped with their neighbour (the distance of
/// optimal string alignment).
Index edit_distance(const std::string& a, const std::string& b) {
  std::vector<Index> before, above, row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = static_cast<Index>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const Index substituted = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string options::lower_case(std::string word) {
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
}

std::vector<std::string> options::split_at_commas(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text)
    if (c == ',')
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

Index options::parse_whole(const std::string& word, const Whole& legal) {
  const std::optional<Index> value = parse_number<Index>(word);
  require(value.has_value(), "expected a whole number", range_of(legal), why_no_unit(word));
  require(is_legal(*value, legal), "expected a whole number", range_of(legal), "; the nearest is ",
          std::clamp(*value, legal.least, legal.most));
  return *value;
}

double options::parse_real(const std::string& word, const Real& legal) {
  const std::optional<double> value = parse_number<double>(word);
  require(value && std::isfinite(*value) && is_legal(*value, legal), "expected a number",
          range_of(legal));
  require(!legal.fp32 || fits_fp32(*value), "expected a number", range_of(legal),
          " that fp32 can hold, in which it is used: ", is_legal(0, legal) ? "0, or " : "",
          fp32_range);
  return *value;
}

double options::parse_quantity(const std::string& word, const Real& legal) {
  constexpr std::string_view thousands = "kmbt";
  const char last = word.empty()
                        ? '\0'
                        : static_cast<char>(std::tolower(static_cast<unsigned char>(word.back())));
  const std::size_t power = thousands.find(last);
  const bool has_unit = power != std::string_view::npos;
  const auto value = parse_number<double>(std::string_view(word).substr(0, word.size() - has_unit));
  const double all = value.value_or(0) * (has_unit ? std::pow(1000, power + 1) : 1);
  require(value && std::isfinite(all) && is_legal(all, legal), "expected a number", range_of(legal),
          ", such as 10e9, 10B, 500M or 1.5T");
  return all;
}

bool options::parse_flag(const std::string& word) {
  if (word == "true") return true;
  if (word == "false") return false;
  throw Error("a flag is true or false");
}

Index options::parse_size(const std::string& word, Index least) {
  Index value = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  const std::size_t power = rest == end ? 0 : units.find(*rest) + 1;  // 0 for an unknown unit
  const bool parsed = error == std::errc() && (rest == end || (power > 0 && rest + 1 == end));
  require(parsed && value >= 0, "expected a size >= ", show_size(least),
          ": bytes, or a whole number with K, M, G or T (powers of 1024) such as 512M");
  for (std::size_t i = 0; i < power; ++i)
    require(!__builtin_mul_overflow(value, Index{1024}, &value), "is more than any memory");
  require(value >= least, "expected a size >= ", show_size(least));
  return value;
}

std::string options::show_size(Index bytes) {
  std::size_t power = 0;
  for (; power < units.size() && bytes > 0 && bytes % 1024 == 0; ++power) bytes /= 1024;
  return power == 0 ? std::to_string(bytes) : fmt::format("{}{}", bytes, units[power - 1]);
}

std::string options::show_real(double value) { return fmt::format("{}", value); }

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr std::size_t longest = 64;
  const std::size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  const auto letters = static_cast<Index>(word.size() - dashes);
  if (word.size() > longest) return "";
  std::string best;
  Index least = (letters < 5 ? 1 : std::max<Index>(2, letters / 3)) + 1;
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

std::string meant_choice(const std::string& word, const std::vector<std::string>& legal) {
  const std::string lower = lower_case(word);
  for (const Synonym& each : synonyms)
    if (each.word == lower && std::find(legal.begin(), legal.end(), each.meaning) != legal.end())
      return std::string(each.meaning);
  for (const std::string& choice : legal)
    if (lower_case(choice) == lower) return choice;
  return nearest(word, legal);
}

std::vector<std::string> options::models_like(const std::string& word,
                                              const std::vector<std::string>& known) {
  std::vector<std::string> parts =
      parts_of_model(std::string_view(word).substr(word.rfind('/') + 1));
  for (; !parts.empty(); parts.resize(parts.size() > 1 ? 1 : 0)) {
    std::vector<std::string> found;
    for (const std::string& name : known)
      if (begin_in_order(parts, parts_of_model(name))) found.push_back(name);
    if (!found.empty()) return found;
  }
  return {};
}

void CommandLine::whole(const std::string& names, Index& value, Whole legal,
                        const std::string& help) {
  add({names, "N", help, false,
       [&value, legal](const std::vector<std::string>& words) {
         value = parse_whole(words.front(), legal);
       },
       [&value, legal] { return is_legal(value, legal) ? std::to_string(value) : std::string(); }});
}

void CommandLine::whole_list(const std::string& names, std::vector<Index>& values, Whole legal,
                             const std::string& help) {
  const auto set = [&values, legal](const std::vector<std::string>& words) {
    std::vector<Index> numbers;
    for (const std::string& word : split_at_commas(words.front())) {
      const std::optional<Index> number = parse_number<Index>(word);
      require(number && is_legal(*number, legal), "expected whole numbers", range_of(legal),
              " with commas between them, such as 3,2,1");
      numbers.push_back(*number);
    }
    values = std::move(numbers);
  };
  add({names, "N,N...", help, false, set,
       [&values] { return fmt::format("{}", fmt::join(values, ",")); }, true});
}

void CommandLine::real(const std::string& names, double& value, Real legal,
                       const std::string& help) {
  add({names, "X", help, false,
       [&value, legal](const std::vector<std::string>& words) {
         value = parse_real(words.front(), legal);
       },
       [&value, legal] { return is_legal(value, legal) ? show_real(value) : std::string(); }});
}

void CommandLine::real_list(const std::string& names, std::vector<double>& values, Real legal,
                            const std::string& help) {
  const auto set = [&values, legal](const std::vector<std::string>& words) {
    std::vector<double> numbers;
    for (const std::string& word : split_at_commas(words.front())) {
      const std::optional<double> number = parse_number<double>(word);
      require(number && std::isfinite(*number) && is_legal(*number, legal), "expected numbers",
              range_of(legal), " with commas between them, such as 1,0.5");
      numbers.push_back(*number);
    }
    values = std::move(numbers);
  };
  add({names, "X,X...", help, false, set,
       [&values] { return fmt::format("{}", fmt::join(values, ",")); }, true});
}

void CommandLine::flag(const std::string& names, bool& value, const std::string& help) {
  add({names, "", help, false,
       [&value](const std::vector<std::string>& words) { value = parse_flag(words.front()); },
       [&value] { return std::string(value ? "true" : "false"); }});
}

void CommandLine::flag_off(const std::string& names, bool& value, const std::string& help) {
  add({names, "", help, false,
       [&value](const std::vector<std::string>& words) { value = !parse_flag(words.front()); },
       [&value] { return std::string(value ? "false" : "true"); }});
}

void CommandLine::size(const std::string& names, Index& value, Index least,
                       const std::string& help) {
  add({names, "SIZE", help, false,
       [&value, least](const std::vector<std::string>& words) {
         value = parse_size(words.front(), least);
       },
       [&value, least] { return value < least ? std::string() : show_size(value); }});
}

void CommandLine::text(const std::string& names, std::string& value, const std::string& metavar,
                       const std::string& help) {
  add({names, metavar, help, false,
       [&value](const std::vector<std::string>& words) { value = words.front(); },
       [&value] { return value; }, true});
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
