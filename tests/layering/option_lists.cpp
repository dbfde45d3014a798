#include "tests/layering/option_lists.h"

#include <regex>

#include "tests/layering/literals.h"

namespace trireme::layering {
namespace {

Skeleton with_options_only(const std::string& text) {
  static const std::regex names("-[a-z0-9,-]+");
  return skeleton_of(text,
                     [](const std::string& literal) { return std::regex_match(literal, names); });
}

}  // namespace

std::set<std::string> options_declared_in(const std::string& text) {
  static const std::regex declaration(
      R"#((?:\.(?:whole|real|whole_list|real_list|size|flag|flag_off|text|list|choice|add)\(\{?|)#"
      R"#(declare_float\(c,)"(--[a-z0-9-]+))#");
  const std::string code = with_options_only(text).text;
  std::set<std::string> names;
  for (std::sregex_iterator i(code.begin(), code.end(), declaration), end; i != end; ++i)
    names.insert((*i)[1]);
  return names;
}

std::vector<OptionList> option_lists_in(const std::string& text) {
  static const std::string name = R"#("--[a-z0-9-]+")#";
  static const std::string element =
      "(?:" + name + R"#(|\{)#" + name + R"#(,(?:[^{};]|\{[^{};]*\})*\}))#";
  static const std::regex list("[{(,](" + element + "(?:," + element + "){2,})(?=[,})])"),
      first("(^|,)\\{?\"(--[a-z0-9-]+)\"");
  if (text.find("\"--") == std::string::npos) return {};  // sooner: few files name options
  const Skeleton code = with_options_only(text);
  std::vector<OptionList> all;
  for (std::sregex_iterator i(code.text.begin(), code.text.end(), list), end; i != end; ++i) {
    OptionList found{{}, code.lines[static_cast<std::size_t>(i->position(1))]};
    const std::string names = (*i)[1];
    for (std::sregex_iterator each(names.begin(), names.end(), first); each != end; ++each)
      found.names.push_back((*each)[2]);
    all.push_back(found);
  }
  return all;
}

}  // namespace trireme::layering
