// trireme data: makes and checks token files.
#include <iostream>

#include "trireme/data/prepare.h"

#include "launch/commands.h"
#include "runtime/core/json.h"

namespace trireme {
namespace {

int data_prepare(int argc, char** argv) {
  std::vector<std::string> inputs;
  std::string output;
  CommandLine command("trireme data prepare",
                      "Converts text files to byte tokens (vocabulary 256). Each file becomes one "
                      "document. Writes PREFIX.bin and PREFIX.idx.");
  command.list("--input", inputs, "FILE...", "text files to convert");
  command.text("--output", output, "PREFIX", "path of the files to write, without .bin and .idx");
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) {
        if (!command.given("--input"))
          problems.add("--input is missing: the text files to convert");
        if (!command.given("--output"))
          problems.add(
              "--output is missing: the path of the files to write, without .bin and .idx");
      },
      [&] {
        const Prepared made = prepare_bytes(inputs, output);
        std::cout << output << ".bin, " << output << ".idx: " << made.documents
                  << (made.documents == 1 ? " document, " : " documents, ") << made.tokens
                  << " tokens\n";
        return ExitCode::success;
      });
}

/// Of the names that docs/reference/commands.md explains.
Json to_json(const Inspection& x) {
  const std::string impossible = impossible_tokens(x);
  Json::Object all{{"prefix", x.prefix},
                   {"type", name(x.type)},
                   {"tokens", x.tokens},
                   {"documents", x.documents},
                   {"sequences", x.sequences},
                   {"shortest_document", x.shortest_document},
                   {"longest_document", x.longest_document},
                   {"problem", impossible.empty() ? Json() : Json(impossible)}};
  if (!x.statistics) return all;
  const TokenStatistics& s = *x.statistics;
  Json::Array frequent;
  for (const TokenStatistics::Frequent& each : s.frequent)
    frequent.emplace_back(Json::Object{{"token", each.token}, {"count", each.count}});
  all.emplace_back("smallest_token", s.smallest);
  all.emplace_back("smallest_position", s.smallest_position);
  all.emplace_back("largest_token", s.largest);
  all.emplace_back("largest_position", s.largest_position);
  all.emplace_back("distinct_tokens", s.distinct);
  all.emplace_back("entropy_bits", s.entropy_bits);
  all.emplace_back("frequent", std::move(frequent));
  return all;
}

int data_inspect(int argc, char** argv) {
  std::string prefix;
  bool json = false;
  CommandLine command("trireme data inspect",
                      "Checks PREFIX.bin and PREFIX.idx, reads every token, and prints statistics. "
                      "Exit code 1 if the files are damaged, or have tokens that no vocabulary "
                      "can have (negative ones, or 2^31 and more).");
  command.positional("PREFIX", prefix, "the path without .bin and .idx");
  command.flag("--json", json, "print one line of JSON instead of text");
  return parse_and_run(
      command, argc, argv, [](Problems&) {},
      [&] {
        const Inspection found = inspect(prefix, Scan::every_token);
        std::cout << (json ? to_text(to_json(found)) + "\n" : describe(found));
        const std::string impossible = impossible_tokens(found);
        if (impossible.empty()) return ExitCode::success;
        std::cerr << "trireme: " << impossible << '\n';
        return ExitCode::failure;
      });
}

}  // namespace

std::vector<Subcommand> data_commands() {
  return {
      {{"data", "prepare"},
       "--input FILE... --output PREFIX",
       "convert text files to byte tokens",
       data_prepare},
      {{"data", "inspect"}, "PREFIX", "check token files and describe them", data_inspect},
  };
}

}  // namespace trireme
