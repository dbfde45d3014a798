#include "trireme/train/generation.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <fmt/ranges.h>
#include <unistd.h>

#include "trireme/core/bf16.h"

#include "runtime/core/json/json.h"
#include "runtime/core/output/output_file.h"
#include "runtime/core/require_call.h"
#include "runtime/data/prepare/encoder.h"
#include "runtime/data/unicode/utf8.h"
#include "runtime/job/rank_agreement.h"
#include "runtime/train/inference/sampler.h"
#include "runtime/train/trainer_state.h"

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

// Text generation: the whole sequence is computed again for every token, which works for every
// layout. The last stage draws a token from (seed, how many were drawn), and sends it to all ranks.

using namespace train;

namespace {

/// One sequence of tokens, padded with zeros; tokens after a position never change its logits.
class Sequence final : public MicroBatchSource {
 public:
  Sequence(const Graph& graph, Index vocabulary, Stream& stream)
      : input_(
            nullptr,
            {1, graph.values()[static_cast<std::size_t>(graph.inputs().front())].spec.shape.back()},
            DType::i32),
        logits_(static_cast<std::size_t>(vocabulary)),
        tokens_(stream.device().allocate_pinned(input_.bytes())),
        result_(stream.device().allocate_pinned(vocabulary * size_bytes(DType::f32))),
        computed_(stream.device().make_event()),
        stream_(stream) {
    input_.data = tokens_.data();
  }

  void show(const std::vector<std::int32_t>& text) {
    computed_->synchronize();  // what was shown before has been read
    const Index shown = std::min(static_cast<Index>(text.size()), input_.count());
    std::copy(text.end() - shown, text.end(), reinterpret_cast<std::int32_t*>(tokens_.data()));
    last_ = shown - 1;
  }
  MicroBatch micro_batch(int /*chunk*/, Index /*number*/) override {
    MicroBatch batch;
    batch.inputs = {&input_, 1};
    return batch;
  }
  /// Keeps the logits of the last token shown.
  void on_result(Index /*number*/, const Tensor& result) override {
    dtype_ = result.dtype;
    const Index bytes = static_cast<Index>(logits_.size()) * size_bytes(dtype_);
    stream_.copy(result_.data(), static_cast<const std::byte*>(result.data) + last_ * bytes, bytes);
  }
  /// All that computes the logits of what is shown is queued.
  void queued() { computed_->record(stream_); }
  /// On the last stage. Waits for them.
  const std::vector<float>& logits() {
    computed_->synchronize();
    if (dtype_ == DType::bf16) {
      const auto* rounded = reinterpret_cast<const Bf16*>(result_.data());
      std::transform(rounded, rounded + logits_.size(), logits_.begin(), to_float);
    } else {
      std::memcpy(logits_.data(), result_.data(), logits_.size() * sizeof(float));
    }
    return logits_;
  }

 private:
  Tensor input_;
  std::vector<float> logits_;
  DType dtype_ = DType::f32;  // of the model's logits
  Buffer tokens_, result_;    // of the host
  std::unique_ptr<Event> computed_;
  Stream& stream_;
  Index last_ = 0;
};

std::string not_finite(std::size_t tokens) {
  return str("no token can be drawn after ", tokens, tokens == 1 ? " token" : " tokens",
             ": logits of the model are not finite; the model has diverged");
}

}  // namespace

std::vector<std::int32_t> Trainer::generate(const GenerateOptions& options) {
  State& s = *state_;
  const State::Call call(s);
  require(s.bound.generate.has_value(), "generate needs Model::logits");
  require(!options.prompt.empty(), "generate needs a prompt of at least one token");
  s.need_values();
  s.enter_evaluation();
  const PlannedModel& model = s.bound.generate->model();
  const Shape& logits = model.results.front().shape();
  Mesh& mesh = s.context.mesh();
  const MeshShape& shape = mesh.shape();
  const int drawer = shape.rank_at({{Role::stage, s.plan.spec.pipeline(0).last_stage()}});
  const Random random = random_for(static_cast<std::uint64_t>(s.context.options().seed), "generate",
                                   static_cast<std::uint64_t>(options.number));
  Sampler sampler(options, logits.back());

  Sequence sequence(*model.graph, logits.back(), s.context.stream());
  std::vector<std::int32_t> text = options.prompt;
  for (Index i = 0; i < options.count; ++i) {
    sequence.show(text);
    s.bound.generate->start(sequence, {});
    sequence.queued();
    Index sums[2] = {0, s.context.stop_reason().empty() ? 0 : 1};  // the token, votes to stop
    if (mesh.rank() == drawer)
      sums[0] = sampler.draw(sequence.logits(), static_cast<double>(random.uniform(i)));
    s.context.host().all_reduce({sums, 2, DType::i64}, Reduction::sum);
    if (sums[0] == Sampler::none) throw JobError(not_finite(text.size()));
    if (sums[1] > 0 && s.is_saved()) s.stop_after_training();
    if (std::count(options.stops.begin(), options.stops.end(), sums[0]) > 0) break;
    text.push_back(static_cast<std::int32_t>(sums[0]));
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(options.prompt.size()), text.end()};
}

}  // namespace trireme
