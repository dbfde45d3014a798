#include "runtime/data/skipped_samples.h"

#include <algorithm>
#include <charconv>

#include "trireme/core/error.h"

namespace trireme::data {
namespace {

// Sums of it with any count of samples are far from overflow.
constexpr Index largest_sample = Index{1} << 60;

/// Throws: Error.
SkippedSamples::Range range_in(std::string_view word) {
  const char* const end = word.data() + word.size();
  SkippedSamples::Range range;
  const auto first = std::from_chars(word.data(), end, range.first);
  const bool has_two = first.ec == std::errc() && first.ptr != end && *first.ptr == '-';
  const auto last = has_two ? std::from_chars(first.ptr + 1, end, range.last) : first;
  require(has_two && last.ec == std::errc() && last.ptr == end, "'", word,
          "': expected a range of samples, such as 4792-4799");
  require(range.first >= 0 && range.first <= range.last, "'", word,
          "': the range has no sample; the first comes before the last");
  require(range.last <= largest_sample, "'", word, "': the last sample is at most ",
          largest_sample);
  return range;
}

}  // namespace

SkippedSamples::SkippedSamples(std::string_view text) {
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    add(range_in(text.substr(0, comma)));
    if (comma == std::string_view::npos) return;
    text.remove_prefix(comma + 1);
    require(!text.empty(), "a range of samples is missing after the last comma");
  }
}

std::string SkippedSamples::text() const {
  std::string all;
  for (const Range& range : ranges_)
    all += str(all.empty() ? "" : ",", range.first, '-', range.last);
  return all;
}

Index SkippedSamples::at(Index n) const {
  for (const Range& range : ranges_) {
    if (n < range.first) break;
    n += range.last - range.first + 1;
  }
  return n;
}

void SkippedSamples::add(const Range& range) {
  Range whole = range;
  std::erase_if(ranges_, [&](const Range& each) {
    if (each.last + 1 < whole.first || whole.last + 1 < each.first) return false;
    whole = {std::min(whole.first, each.first), std::max(whole.last, each.last)};
    return true;
  });
  const auto after = std::find_if(ranges_.begin(), ranges_.end(),
                                  [&](const Range& each) { return each.first > whole.last; });
  ranges_.insert(after, whole);
}

void SkippedSamples::add(const SkippedSamples& more) {
  for (const Range& range : more.ranges_) add(range);
}

Index SkippedSamples::first_missing_of(const SkippedSamples& other) const {
  for (const Range& range : other.ranges_) {
    const auto over = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& each) {
      return each.first <= range.first && range.first <= each.last;
    });
    if (over == ranges_.end()) return range.first;
    if (over->last < range.last) return over->last + 1;
  }
  return -1;
}

SkippedSamples skipped_samples(const std::vector<std::string>& values) {
  SkippedSamples all;
  for (const std::string& value : values) {
    require(!value.empty(), "'': expected a range of samples, such as 4792-4799");
    all.add(SkippedSamples(value));
  }
  return all;
}

}  // namespace trireme::data
