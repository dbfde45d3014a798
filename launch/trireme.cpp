// The trireme command: tools around training. One table of subcommands; each reads its options as
// the programs do.
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include <trireme/trireme.h>

namespace {

using namespace trireme;

int exit_code(ExitCode code) { return static_cast<int>(code); }

/// Parses, and when that says so runs `work`. Prints help, or all mistakes.
int parse_and_run(CommandLine& command, int argc, char** argv,
                  const std::function<void(Problems&)>& check, const std::function<void()>& work) {
  Problems problems;
  if (command.parse(argc, argv, problems) == CommandLine::Outcome::help) {
    std::cout << command.help();
    return exit_code(ExitCode::success);
  }
  check(problems);
  for (const std::string& problem : problems.all()) std::cerr << "trireme: " << problem << '\n';
  if (!problems.empty()) return exit_code(ExitCode::configuration);
  work();
  return exit_code(ExitCode::success);
}

int data_prepare(int argc, char** argv) {
  std::vector<std::string> inputs;
  std::string output;
  CommandLine command("trireme data prepare",
                      "Text to byte tokens (vocabulary 256), one document a file: writes "
                      "PREFIX.bin and PREFIX.idx.");
  command.list("--input", inputs, "FILE...", "text files");
  command.text("--output", output, "PREFIX", "of the files to write");
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) {
        if (!command.given("--input")) problems.add("--input is missing: the text files");
        if (!command.given("--output"))
          problems.add("--output is missing: PREFIX of the files to write");
      },
      [&] {
        const Prepared made = prepare_bytes(inputs, output);
        std::cout << output << ".bin, " << output << ".idx: " << made.documents << " documents, "
                  << made.tokens << " tokens\n";
      });
}

int data_inspect(int argc, char** argv) {
  std::string prefix;
  CommandLine command(
      "trireme data inspect",
      "Checks PREFIX.bin and PREFIX.idx, reads every token, and says what is in them.");
  command.positional("PREFIX", prefix, "the path without .bin and .idx");
  return parse_and_run(
      command, argc, argv, [](Problems&) {},
      [&] { std::cout << describe(inspect(prefix, Scan::every_token)); });
}

struct Subcommand {
  std::vector<std::string> words;
  std::string usage, help;
  int (*run)(int argc, char** argv);
};

std::vector<Subcommand> subcommands() {
  return {
      {{"data", "prepare"}, "--input FILE... --output PREFIX", "text to byte tokens", data_prepare},
      {{"data", "inspect"}, "PREFIX", "check token files and describe them", data_inspect},
  };
}

void print_usage(std::ostream& out) {
  out << "Usage: trireme COMMAND [options]; trireme COMMAND --help\n\n";
  for (const Subcommand& sub : subcommands())
    out << "  trireme " << sub.words[0] << ' ' << sub.words[1] << ' ' << sub.usage << "\n      "
        << sub.help << '\n';
}

int dispatch(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "", second = argc > 2 ? argv[2] : "";
  for (const Subcommand& sub : subcommands())
    if (first == sub.words[0] && second == sub.words[1]) return sub.run(argc - 2, argv + 2);
  const bool asked = first == "--help" || first == "-h" || second == "--help";
  if (asked) {
    print_usage(std::cout);
    return exit_code(ExitCode::success);
  }
  std::vector<std::string> names;
  for (const Subcommand& sub : subcommands()) names.push_back(sub.words[0] + " " + sub.words[1]);
  const std::string near = nearest(first + " " + second, names);
  std::cerr << "trireme: "
            << (first.empty() ? "a command is missing"
                              : "unknown command '" + first + " " + second + "'")
            << (near.empty() ? "" : "; did you mean " + near + "?") << "\n\n";
  print_usage(std::cerr);
  return exit_code(ExitCode::configuration);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return dispatch(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "trireme: " << error.what() << '\n';
    return exit_code(ExitCode::failure);
  }
}
