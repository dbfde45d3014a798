// trireme data: makes token files, checks them, and prints their text.
#include <filesystem>
#include <iostream>

#include "trireme/data/inspect.h"

#include "launch/commands.h"
#include "launch/step_arguments.h"
#include "runtime/core/json/json.h"
#include "runtime/core/parse_number.h"
#include "runtime/core/process/this_process.h"
#include "runtime/data/prepare/prepare_text.h"

namespace trireme {

using namespace data;

namespace {

/// The tokenizer of --tokenizer; bytes where there is none.
void open_encoder(const std::string& tokenizer, std::unique_ptr<TextEncoder>& encoder,
                  Problems& problems) {
  try {
    encoder = tokenizer.empty() ? byte_encoder() : tokenizer_encoder(tokenizer);
  } catch (const Error& error) {
    problems.add_lines("--tokenizer: ", error.what());
  }
}

/// "1 document", "1 234 documents"
std::string counted(Index count, const char* what) {
  return str(count, " ", what, count == 1 ? "" : "s");
}

/// Ends the process when a signal has stopped the work, after its unfinished files are removed.
Sidecar prepare_or_stop(PrepareOptions& options, const TextEncoder& encoder) {
  for (const std::string& warning : encoder.warnings())
    std::cerr << "trireme: warning: " << warning << '\n';
  EndSignals signals;
  options.stop_file = signals.file();
  try {
    Progress progress(options.prefix);
    return prepare_text(options, encoder,
                        [&](Index done, Index total) { progress.show(done, total); });
  } catch (const Error&) {
    const int signal = signals.take();
    if (signal == 0) throw;
    std::cerr << "trireme: stopped by signal " << signal << "; " << options.prefix
              << ".idx was not written\n";
    end_by(signal);
    throw;
  }
}

void print(const std::string& output, const Sidecar& made) {
  std::cout << output << ".bin, " << output << ".idx: " << counted(made.documents, "document")
            << ", " << counted(made.tokens, "token") << " of " << counted(made.text_bytes, "byte")
            << " of text";
  if (made.empty_documents > 0)
    std::cout << "; " << counted(made.empty_documents, "document") << " without text left out";
  std::cout << '\n';
}

int data_prepare(int argc, char** argv) {
  PrepareOptions options;
  std::string tokenizer;
  Index workers = default_threads();
  std::unique_ptr<TextEncoder> encoder;
  CommandLine command("trireme data prepare",
                      "Converts text to tokens, and writes PREFIX.bin, PREFIX.idx and PREFIX.json, "
                      "which says of which tokenizer they are. Inputs are text files (a file is a "
                      "document) and files of JSON lines (a line is a document), also compressed "
                      "by gzip, bzip2, xz or zstd, and pipes.");
  command.list("--input", options.inputs, "FILE...",
               "files and pipes to convert; -: standard input");
  command.text("--output", options.prefix, "PREFIX",
               "path of the files to write, without .bin and .idx");
  command.writes("--output", {".bin", ".idx", ".json"});
  command.text("--tokenizer", tokenizer, "PATH",
               "tokenizer.json, or a directory with one; default: a token is a byte (vocabulary "
               "256)");
  command.choice(
      "--format", options.format,
      {{"auto", TextFormat::automatic}, {"text", TextFormat::text}, {"jsonl", TextFormat::jsonl}},
      "what inputs are; auto: JSON lines where the name ends in .jsonl, .ndjson or "
      ".json, or the text begins with {\" or {}; otherwise text");
  command.list("--json-keys", options.json_keys, "KEY...",
               "members of a JSON line that hold its text; several are joined by a newline");
  command.flag("--append-eod", options.append_eod,
               "add the tokenizer's token for the end of a document to each");
  command.flag("--prepend-bos", options.prepend_bos,
               "begin each document with the tokenizer's token for the beginning of a text");
  command.whole("--workers", workers, {1, 256}, "threads that convert; the result is the same");
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) {
        if (!command.given("--input"))
          problems.add("--input is missing: the text files to convert");
        if (!command.given("--output"))
          problems.add(
              "--output is missing: the path of the files to write, without .bin and .idx");
        if (!problems.empty()) return;
        options.workers = static_cast<int>(workers);
        open_encoder(tokenizer, encoder, problems);
        if (encoder) problems.collect([&] { check(options, *encoder); });
      },
      [&] {
        print(options.prefix, prepare_or_stop(options, *encoder));
        return ExitCode::success;
      });
}

/// "A:B", tokens from A up to B, without B. Throws: Error.
std::pair<Index, Index> parse_token_range(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string_view all = text;
  std::optional<Index> begin, end;
  if (colon != std::string::npos) {
    begin = parse_number<Index>(all.substr(0, colon));
    end = parse_number<Index>(all.substr(colon + 1));
  }
  require(begin && end && 0 <= *begin && *begin <= *end, "--tokens ", text,
          ": expected A:B with 0 <= A <= B");
  return {*begin, *end};
}

int data_decode(int argc, char** argv) {
  std::string prefix, tokenizer, tokens, text;
  Index document = 1;
  std::pair<Index, Index> range;
  std::unique_ptr<TextEncoder> encoder;
  CommandLine command("trireme data decode",
                      "Prints the text of a document or of other tokens. A document is printed "
                      "without the tokens that --prepend-bos and --append-eod have added.");
  command.positional("PREFIX", prefix, "the path without .bin and .idx");
  command.text("--tokenizer", tokenizer, "PATH",
               "tokenizer.json, or a directory with one; default: a token is a byte");
  command.whole("--document", document, at_least(1), "which document, counted from 1");
  command.text("--tokens", tokens, "A:B",
               "tokens A to B - 1, counted from 0, instead of a document");
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) {
        if (!tokens.empty()) problems.collect([&] { range = parse_token_range(tokens); });
        if (!tokens.empty() && command.given("--document"))
          problems.add("--tokens and --document exclude each other; leave one out");
        open_encoder(tokenizer, encoder, problems);
        open_input(problems, [&] {
          const TokenFile file(prefix);
          text = tokens.empty() ? decode_document(file, document, *encoder)
                                : decode_tokens(file, range.first, range.second, *encoder);
        });
      },
      [&] {
        std::cout << text;
        return ExitCode::success;
      });
}

Json to_json(const Sidecar& s) {
  const auto token = [](const std::optional<Index>& value) {
    return value ? Json(*value) : Json();
  };
  return Json::Object{{"tokenizer", s.tokenizer},
                      {"vocabulary", s.vocabulary},
                      {"bos", token(s.bos)},
                      {"eod", token(s.eod)},
                      {"text_bytes", s.text_bytes},
                      {"empty_documents", s.empty_documents},
                      {"prepend_bos", s.prepend_bos},
                      {"append_eod", s.append_eod},
                      {"bytes_per_token", s.bytes_per_token()}};
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
                   {"problem", impossible.empty() ? Json() : Json(impossible)},
                   {"sidecar", x.sidecar ? to_json(*x.sidecar) : Json()}};
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
      command, argc, argv,
      [&](Problems& problems) {
        std::error_code unknown;
        if (!std::filesystem::exists(prefix + ".idx", unknown))  // else it is damaged or whole
          open_input(problems, [&] { TokenFile{prefix}; });
      },
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
       "--input FILE... --output PREFIX [--tokenizer PATH]",
       "convert text to tokens",
       data_prepare},
      {{"data", "decode"},
       "PREFIX [--tokenizer PATH] [--document N | --tokens A:B]",
       "print the text of tokens",
       data_decode},
      {{"data", "inspect"}, "PREFIX", "check token files and describe them", data_inspect},
  };
}

}  // namespace trireme
