#include "trireme/train/generation.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <fmt/ranges.h>
#include <unistd.h>

#include "runtime/core/json/json.h"
#include "runtime/core/output/output_file.h"
#include "runtime/core/require_call.h"
#include "runtime/data/prepare/encoder.h"
#include "runtime/data/unicode/utf8.h"
#include "runtime/job/rank_agreement.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto between_lines = std::chrono::seconds(10);

/// Collective. Files of prompts and tokenizers may be one of each node.
void agree_on_prompts(const Host& host, const data::TextEncoder& encoder,
                      const std::vector<Prompt>& prompts) {
  std::vector<RankFact> facts = {
      {"--tokenizer", encoder.hash()},
      {"tokens that end a text", fmt::format("{}", fmt::join(encoder.stops(), ", "))},
      {"number of prompts", str(prompts.size())}};
  for (std::size_t i = 0; i < prompts.size(); ++i)
    facts.push_back({str("prompt ", i + 1), prompts[i].text});
  require_same(host, facts, 1);
}

/// The bytes that follow the prompt.
std::string continuation(const data::TextEncoder& encoder, const Prompt& prompt,
                         const std::vector<std::int32_t>& tokens) {
  std::vector<std::int32_t> all = prompt.tokens;
  all.insert(all.end(), tokens.begin(), tokens.end());
  return data::decode_from(prompt.tokens.size(), all, encoder);
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
  OutputLines(const std::string& path, bool writes) : path_(path) {
    if (!writes || path.empty()) return;
    try {
      file_ = open_output(path, outputs::texts);
    } catch (const Error& error) {
      throw Error(str("--output ", error.what()));
    }
    // A pipe or device (EINVAL) has nothing of an earlier job.
    require_call(::ftruncate(file_, 0) == 0 || errno == EINVAL, "--output ", path_);
  }
  ~OutputLines() {
    if (file_ >= 0) ::close(file_);
  }
  OutputLines(const OutputLines&) = delete;
  OutputLines& operator=(const OutputLines&) = delete;

  void add(const std::string& line) const {
    if (file_ < 0) return;
    const std::string text = line + '\n';
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t some = ::write(file_, text.data() + done, text.size() - done);
      require_call(some >= 0 || errno == EINTR, "--output ", path_);
      done += static_cast<std::size_t>(std::max<ssize_t>(some, 0));
    }
  }

 private:
  const std::string& path_;
  int file_ = -1;
};

}  // namespace

void generate_texts(Context& context, Trainer& trainer, const GptOptions& gpt,
                    const data::TextEncoder& encoder, const std::vector<Prompt>& prompts) {
  const Host& host = context.host();
  agree_on_prompts(host, encoder, prompts);
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
    options.stops = encoder.stops();
    options.number = static_cast<Index>(i);
    const std::vector<std::int32_t> tokens = trainer.generate(options);
    const std::string text = continuation(encoder, prompts[i], tokens);
    const bool stopped = static_cast<Index>(tokens.size()) < gpt.generate;
    agree_or_stop(host, [&] {
      output->add(line_of(prompts[i], tokens, data::with_replacements(text), stopped));
    });
    if (gpt.output.empty()) {
      if (prompts.size() > 1)
        context.log().result(str("generated text ", i + 1, " of ", prompts.size(), ":"));
      else
        context.log().info("generated text:");
      context.log().result(data::with_replacements(prompts[i].text + text));
    } else if (Clock::now() >= next_line || i + 1 == prompts.size()) {
      next_line = Clock::now() + between_lines;
      context.log().info(
          str("generated ", i + 1, " of ", prompts.size(), " texts, in ", gpt.output));
    }
  }
}

}  // namespace trireme
