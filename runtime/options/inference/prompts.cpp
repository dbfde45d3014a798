#include "trireme/options/prompts.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "runtime/core/json/json.h"
#include "runtime/data/prepare/encoder.h"

namespace trireme {
namespace {

constexpr Index most_reported = 5;  // lines of a file

/// The prompt in a line of JSON. Throws: Error.
std::string prompt_of(const std::string& line) {
  const Json json = parse_json(line);
  const Json* prompt =
      std::holds_alternative<Json::Object>(json.value) ? json.find("prompt") : &json;
  const auto* text = prompt == nullptr ? nullptr : std::get_if<std::string>(&prompt->value);
  require(text != nullptr, "is no JSON string, and no object with a string named \"prompt\"");
  return *text;
}

/// Throws: Error that says what is wrong with it.
Prompt checked(const std::string& text, const GptOptions& gpt, data::TextEncoder::Worker& worker) {
  Prompt prompt{text, {}};
  worker.encode(text, prompt.tokens);
  require(!prompt.tokens.empty(), "is empty; a model continues at least one token");
  const auto tokens = static_cast<Index>(prompt.tokens.size());
  require(tokens <= gpt.model.seq_length, "has ", tokens, " tokens, more than --seq-length ",
          gpt.model.seq_length);
  return prompt;
}

/// By the name, as `data prepare` has it.
bool has_json_lines(const std::string& path) {
  return path.ends_with(".jsonl") || path.ends_with(".ndjson") || path.ends_with(".json");
}

/// Without what is no text of the line: the mark of UTF-8 before the first one, and the end that
/// other systems write.
void strip(std::string& line, bool is_first) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (is_first && line.starts_with(byte_order_mark)) line.erase(0, byte_order_mark.size());
  if (line.ends_with('\r')) line.pop_back();
}

std::vector<Prompt> read_prompts(const GptOptions& gpt, data::TextEncoder::Worker& worker,
                                 Problems& problems) {
  const std::string& path = gpt.prompts;
  const bool json = has_json_lines(path);
  std::vector<Prompt> all;
  std::ifstream file(path);
  Index number = 0, wrong = 0;
  for (std::string line; std::getline(file, line);) {
    strip(line, ++number == 1);
    if (json && line.find_first_not_of(" \t") == std::string::npos) continue;
    try {
      all.push_back(checked(json ? prompt_of(line) : line, gpt, worker));
    } catch (const Error& error) {
      if (++wrong <= most_reported)
        problems.add("--prompts ", path, ":", number, ": ", error.what());
    }
  }
  if (wrong > most_reported)
    problems.add("--prompts ", path, ": ", wrong - most_reported, " more lines are wrong");
  if (!file.is_open() || file.bad())
    problems.add("--prompts ", path, ": ", std::strerror(errno));
  else if (all.empty() && wrong == 0)
    problems.add("--prompts ", path, ": has no prompt; give one a line");
  return all;
}

}  // namespace

std::vector<Prompt> open_prompts(const GptOptions& gpt, const data::TextEncoder* encoder,
                                 Problems& problems) {
  if (encoder == nullptr) return {};
  const std::unique_ptr<data::TextEncoder::Worker> worker = encoder->worker();
  if (!gpt.prompts.empty()) return read_prompts(gpt, *worker, problems);
  std::vector<Prompt> all;
  try {
    all.push_back(checked(gpt.prompt, gpt, *worker));
  } catch (const Error& error) {
    problems.add("--prompt ", error.what());
  }
  return all;
}

}  // namespace trireme
