// Continues Trainer (trireme/train/trainer.h).
// Text generation: the whole sequence is computed again for every token, which works for every
// layout. The last stage draws a token from (seed, how many were drawn), and sends it to all ranks.
#include <algorithm>
#include <cstring>

#include "trireme/core/bf16.h"

#include "runtime/train/inference/sampler.h"
#include "runtime/train/trainer_state.h"

namespace trireme {

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
  const int drawer = shape.rank_at({{Axis::pipeline, s.plan.spec.pipeline(0).last_stage()}});
  const Random random = random_for(static_cast<std::uint64_t>(s.context.options().seed), "generate",
                                   static_cast<std::uint64_t>(options.number));
  Sampler sampler(options, logits.back());

  Sequence sequence(*model.graph, logits.back(), s.context.stream());
  std::vector<std::int32_t> text = options.prompt;
  for (Index i = 0; i < options.count; ++i) {
    sequence.show(text);
    s.bound.generate->start(sequence);
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
