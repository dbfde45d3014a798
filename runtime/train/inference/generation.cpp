#include "trireme/train/generation.h"

#include <chrono>
#include <fstream>

#include "runtime/core/json.h"
#include "runtime/core/require_call.h"
#include "runtime/job/rank_agreement.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto between_lines = std::chrono::seconds(10);

/// Collective. Files of prompts may be one of each node.
void agree_on_prompts(const Host& host, const std::vector<Prompt>& prompts) {
  std::vector<RankFact> facts = {{"number of prompts", str(prompts.size())}};
  for (std::size_t i = 0; i < prompts.size(); ++i)
    facts.push_back({str("prompt ", i + 1), prompts[i].text});
  require_same(host, facts, 1);
}

/// {"prompt":…,"text":…,"tokens":[…],"finish":…}
std::string line_of(const Prompt& prompt, const std::vector<std::int32_t>& tokens,
                    const std::string& text, bool stopped) {
  Json::Array numbers;
  for (const std::int32_t token : tokens) numbers.push_back(Index{token});
  return to_text(Json::Object{{"prompt", prompt.text},
                              {"text", text},
                              {"tokens", std::move(numbers)},
                              {"finish", stopped ? "stop" : "length"}});
}

/// The lines of --output, on rank 0; nothing elsewhere, or without it.
class OutputLines {
 public:
  OutputLines(const std::string& path, bool writes)
      : path_(path), writes_(writes && !path.empty()) {
    if (writes_) file_.open(path, std::ios::trunc);
    check();
  }
  void add(const std::string& line) {
    if (writes_) file_ << line << '\n' << std::flush;
    check();
  }

 private:
  void check() const { require_call(!writes_ || file_.good(), "--output ", path_); }

  const std::string& path_;
  bool writes_;
  std::ofstream file_;
};

}  // namespace

void generate_texts(Context& context, Trainer& trainer, const GptOptions& gpt,
                    const std::vector<Prompt>& prompts) {
  const Host& host = context.host();
  agree_on_prompts(host, prompts);
  std::optional<OutputLines> output;
  agree_or_stop(host, [&] { output.emplace(gpt.output, host.rank() == 0); });
  Clock::time_point next_line = Clock::now() + between_lines;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    GenerateOptions options;
    options.prompt = prompts[i].tokens;
    options.count = gpt.generate;
    options.temperature = gpt.temperature;
    options.top_k = gpt.top_k;
    options.top_p = gpt.top_p;
    options.number = static_cast<Index>(i);
    const std::vector<std::int32_t> tokens = trainer.generate(options);
    const std::string text = byte_text(tokens);
    const bool stopped = static_cast<Index>(tokens.size()) < gpt.generate;
    agree_or_stop(host, [&] { output->add(line_of(prompts[i], tokens, text, stopped)); });
    if (gpt.output.empty()) {
      context.log().info(prompts.size() == 1
                             ? std::string("generated text:")
                             : str("generated text ", i + 1, " of ", prompts.size(), ":"));
      context.log().line(prompts[i].text + text);
    } else if (Clock::now() >= next_line || i + 1 == prompts.size()) {
      next_line = Clock::now() + between_lines;
      context.log().info(
          str("generated ", i + 1, " of ", prompts.size(), " texts, in ", gpt.output));
    }
  }
}

}  // namespace trireme
