// The command line of train_gpt as the gate sees it.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "trireme/options/gpt_options.h"

#include "tests/support/recorded_problems.h"

namespace trireme {

/// Options of a line of words, parsed, settled and checked for a job of `ranks`; no data is opened.
struct GptCommandLine {
  GptCommandLine(const std::string& line, Index ranks) {
    std::vector<std::string> words{"train_gpt"};
    std::istringstream in(line);
    for (std::string word; in >> word;) words.push_back(word);
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    declare_options(command, options);
    declare_gpt_options(command, options, gpt);
    command.parse(static_cast<int>(argv.size()), argv.data(), problems);
    settle_gpt_options(command, options, gpt);
    derive_defaults(command, options);
    check_options(command, options, ranks, problems);
    check_gpt_options(command, options, gpt, problems);
  }

  Options options;
  GptOptions gpt;
  CommandLine command{"train_gpt", ""};
  test::RecordedProblems problems;
};

inline std::vector<std::string> problems_of(const std::string& line, Index ranks) {
  return GptCommandLine(line, ranks).problems.all();
}

}  // namespace trireme
