// A model whose gate and loss are arithmetic on values: it has to learn on the device that it gets.
#include <cmath>

#include "trireme/trireme.h"

namespace trireme {
namespace {

constexpr Index width = 16;

struct Halves final : DataSource {
  Index fill(Index sample, std::span<const Tensor> out) override {
    const Random random = random_for(7, "halves", static_cast<std::uint64_t>(sample));
    for (std::size_t t = 0; t < out.size(); ++t)  // x, then y = x / 2
      for (Index i = 0; i < width && out[t].data != nullptr; ++i)
        out[t].as<float>()[i] = random.normal(i) / static_cast<float>(t + 1);
    return 1;
  }
};

Value model(Graph& g, Index batch) {
  const Value x = g.input("x", {batch, width});
  const Value a = column_linear(x, "up", 2 * width), b = column_linear(x, "gate", 2 * width);
  const Value miss = row_linear(a * sigmoid(b), "down", width) - g.input("y", {batch, width});
  return mean(miss * miss);
}

void learn(Context& context) {
  require(context.device().kind() == DeviceKind::cuda, "this test is for --device cuda");
  const Index batch = context.options().micro_batch_size;
  Trainer trainer(context, Model([batch](Graph& g) { return model(g, batch); }));
  Halves data;
  double first = 0, last = 0;
  for (int step = 0; step < 40; ++step) {
    last = trainer.step(data).loss;
    if (step == 0) first = last;
  }
  require(last < 0.5 * first, "the loss is ", first, " at first and ", last, " in the end");
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  trireme::Application application{.name = "arithmetic_model",
                                   .description = "Learns x / 2 by a gate."};
  application.defaults.train_iters = 40;
  application.defaults.learning_rate.lr = 3e-2;
  return trireme::run(argc, argv, application, trireme::learn);
}
