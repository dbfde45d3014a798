#include "runtime/rank_plan/parameter_groups.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trireme {
namespace {

using Words = std::vector<std::string>;

/// "block.0.norm": {"block", "0", "norm"}
Words words_of(const std::string& name) {
  Words words(1);
  for (const char c : name) {
    if (c == '.')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

std::optional<Index> number_in(const std::string& word) {
  Index number = 0;
  const char* end = word.data() + word.size();
  const auto [last, error] = std::from_chars(word.data(), end, number);
  if (word.empty() || error != std::errc() || last != end || word.front() == '-') return {};
  return number;
}

/// "0-15"
struct Numbers {
  Index first, last;
};
std::optional<Numbers> numbers_in(const std::string& word) {
  const std::size_t dash = word.find('-');
  if (dash == std::string::npos) return {};
  const auto first = number_in(word.substr(0, dash)), last = number_in(word.substr(dash + 1));
  if (!first || !last) return {};
  return Numbers{*first, *last};
}

bool fits(const std::string& pattern, const std::string& word) {
  if (pattern == word) return true;
  const auto numbers = numbers_in(pattern);
  const auto number = number_in(word);
  return numbers && number && numbers->first <= *number && *number <= numbers->last;
}

/// Whether the name begins with the words of the pattern.
bool selects(const Words& pattern, const std::string& name) {
  const Words words = words_of(name);
  return pattern.size() <= words.size() &&
         std::equal(pattern.begin(), pattern.end(), words.begin(), fits);
}

template <class F>
void for_each_tensor(const Graph& graph, F&& f) {
  for (const Parameter& parameter : graph.parameters())
    for (const ParameterPart& part : parameter.parts) f(parameter, part);
}

bool selects_any(const Graph& graph, const Words& pattern) {
  bool any = false;
  for_each_tensor(graph, [&](const Parameter&, const ParameterPart& part) {
    any = any || selects(pattern, part.name);
  });
  return any;
}

/// "embedding, block.0-11, norm": what lies directly below `prefix`, in the order of the model.
std::string parts_below(const Graph& graph, const Words& prefix) {
  struct Part {
    std::string name;
    std::optional<Numbers> numbers;  // that follow the name
  };
  std::vector<Part> parts;
  const auto add = [&](const Words& words) {
    std::string name;
    for (std::size_t i = 0; i <= prefix.size(); ++i) name += (i == 0 ? "" : ".") + words[i];
    const auto number =
        words.size() > prefix.size() + 1 ? number_in(words[prefix.size() + 1]) : std::nullopt;
    const auto known = std::find_if(parts.begin(), parts.end(),
                                    [&](const Part& part) { return part.name == name; });
    Part& part = known != parts.end() ? *known : parts.emplace_back(Part{name, {}});
    if (!number) return;
    if (!part.numbers) part.numbers = Numbers{*number, *number};
    part.numbers->first = std::min(part.numbers->first, *number);
    part.numbers->last = std::max(part.numbers->last, *number);
  };
  for_each_tensor(graph, [&](const Parameter&, const ParameterPart& part) {
    const Words words = words_of(part.name);
    if (words.size() > prefix.size() && selects(prefix, part.name)) add(words);
  });
  std::string text;
  for (const auto& [name, numbers] : parts) {
    text += (text.empty() ? "" : ", ") + name;
    if (numbers) text += str(".", numbers->first);
    if (numbers && numbers->last > numbers->first) text += str("-", numbers->last);
  }
  return text;
}

/// Throws: Error for a name of no part. Of a range both ends have to be there.
void check_part(const Graph& graph, const std::string& name) {
  Words known;
  for (const std::string& word : words_of(name)) {
    const auto numbers = numbers_in(word);
    require(!numbers || numbers->first <= numbers->last, "--freeze ", name, ": ", word,
            " begins above its end");
    const Words ends = numbers ? Words{str(numbers->first), str(numbers->last)} : Words{word};
    for (const std::string& end : ends) {
      Words longer = known;
      longer.push_back(end);
      if (selects_any(graph, longer)) continue;
      Words above = known;
      if (number_in(end) && !above.empty()) above.pop_back();  // what is numbered, and from where
      const std::string parts = parts_below(graph, above);
      throw Error(str("--freeze ", name, ": this model has no ",
                      fmt::format("{}", fmt::join(longer, ".")), "; its parts",
                      above.empty() ? "" : " there", " are ", parts.empty() ? "none" : parts));
    }
    known.push_back(ends.back());
  }
}

/// Assigns the group to parameters that are in none before it. Throws: Error where its pattern
/// selects some of the tensors of one parameter.
void assign_group(Graph& graph, const ParameterGroup& group) {
  const Words pattern = words_of(group.pattern);
  for (const Parameter& parameter : graph.parameters()) {
    const auto inside = [&](const ParameterPart& part) { return selects(pattern, part.name); };
    const auto in = std::find_if(parameter.parts.begin(), parameter.parts.end(), inside);
    if (in == parameter.parts.end()) continue;
    const auto out = std::find_if_not(parameter.parts.begin(), parameter.parts.end(), inside);
    require(out == parameter.parts.end(), "--freeze ", group.pattern, ": ", in->name,
            " lies in one piece of memory with ", out == parameter.parts.end() ? "" : out->name,
            ", which only a part that has both can freeze");
    if (parameter.group.pattern.empty()) graph.assign(parameter.id, group);
  }
}

/// Whether several layers read it: ops of one block are one.
bool is_tied(const Graph& graph, const Parameter& parameter) {
  std::set<int> blocks;
  int outside = 0;
  for (const Node& node : graph.nodes()) {
    if (std::find(node.inputs.begin(), node.inputs.end(), parameter.value) == node.inputs.end())
      continue;
    if (node.block < 0)
      ++outside;
    else
      blocks.insert(node.block);
  }
  return blocks.size() + static_cast<std::size_t>(outside) > 1;
}

}  // namespace

void assign_groups(Graph& graph, const TrainingSpec& spec) {
  const std::vector<Parameter>& parameters = graph.parameters();
  if (!spec.trains)
    for (const Parameter& parameter : parameters) graph.assign(parameter.id, {.trained = false});
  if (!spec.trains || spec.groups.empty()) return;
  for (const ParameterGroup& group : spec.groups) check_part(graph, group.pattern);
  for (const ParameterGroup& group : spec.groups) assign_group(graph, group);
  std::string patterns;
  for (const ParameterGroup& group : spec.groups)
    patterns += (patterns.empty() ? "" : ",") + group.pattern;
  require(!std::all_of(parameters.begin(), parameters.end(), std::mem_fn(&Parameter::frozen)),
          "--freeze ", patterns, ": nothing is left to train; the parts of this model are ",
          parts_below(graph, {}));
}

std::string describe_frozen(const Graph& graph) {
  Index tensors = 0, frozen_tensors = 0;
  double elements = 0, frozen_elements = 0;
  for_each_tensor(graph, [&](const Parameter& parameter, const ParameterPart& part) {
    ++tensors;
    elements += static_cast<double>(part.global.count());
    if (!parameter.frozen()) return;
    ++frozen_tensors;
    frozen_elements += static_cast<double>(part.global.count());
  });
  if (frozen_tensors == 0) return "";
  std::string tied;
  for (const Parameter& parameter : graph.parameters())
    if (parameter.frozen() && is_tied(graph, parameter))
      tied += (tied.empty() ? "; wherever they are used: " : ", ") + parameter.name();
  constexpr double million = 1e6;
  return fmt::format("{} of {} tensors, {:.1f} of {:.1f} million parameters{}", frozen_tensors,
                     tensors, frozen_elements / million, elements / million, tied);
}

}  // namespace trireme
