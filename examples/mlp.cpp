// The smallest model: residual MLP blocks, split over the tensor axis, that learn to continue sine
// waves.
// mpirun -np 4 mlp --tp 2 --pp 2
#include <cmath>

#include <trireme/trireme.h>

using namespace trireme;

constexpr Index width = 64;

// One residual MLP block: column, then row, so one all-reduce each way.
Value block(Value x) {
  const Value h = gelu_tanh(column_linear(rms_norm(x, "norm"), "up", 4 * width));
  return x + row_linear(h, "down", width);
}

Value continuation(Graph& g, Index batch) {
  Value x = g.input("x", {batch, width});
  for (int i = 0; i < 8; ++i)
    x = g.block("block", i, [&] { return block(x); });  // a place to cut, and to recompute
  return x;
}

// Sample n: a wave of its own phase and frequency, x the first `width` points, y the next.
class SineWaves final : public DataSource {
 public:
  Index fill(Index sample, std::span<const Tensor> out) override {
    const Random random = random_for(1, "waves", static_cast<std::uint64_t>(sample));
    const float phase = 6.2831853f * random.uniform(0),
                frequency = 0.05f + 0.2f * random.uniform(1);
    for (std::size_t i = 0; i < out.size(); ++i)
      for (Index t = 0; t < width && out[i].data != nullptr; ++t)
        out[i].as<float>()[t] =
            std::sin(phase + frequency * static_cast<float>(static_cast<Index>(i) * width + t));
    return width;
  }
};

int main(int argc, char** argv) {
  return run(argc, argv, [](Context& context) {
    const Index batch = context.options().micro_batch_size;
    Model model([&](Graph& g) {
      const Value y = continuation(g, batch), wave = g.input("y", {batch, width});
      g.metric("bias", sum(y - wave));
      return squared_error(y, wave);
    });
    model.result = [&](Graph& g) { return continuation(g, batch); };
    Trainer trainer(context, model);
    SineWaves waves;
    trainer.fit(waves);
    trainer.outputs(waves, 3, [&](Index wave, const Tensor& y) {
      context.log().info(
          str("wave ", wave, " continues with ", y.as<float>()[0], ", ", y.as<float>()[1], " ..."));
    });
  });
}
