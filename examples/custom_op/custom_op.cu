// A custom op, x * sigmoid(1.3 x), in a model of |x|: mpirun -np 2 custom_op --tp 2 --bf16
#include <trireme/trireme.h>

using namespace trireme;

constexpr Index width = 32;

TRIREME_HD float gate(float x) { return 1 / (1 + std::exp(-1.3f * x)); }
struct SwishValue {
  TRIREME_HD float operator()(float x) const { return x * gate(x); }
};
struct SwishSlope {
  TRIREME_HD float operator()(float x) const { return gate(x) * (1 + 1.3f * x * (1 - gate(x))); }
};
Value swish(Value x) { return pointwise("swish", SwishValue{}, SwishSlope{}, x); }

struct AbsoluteValues final : DataSource {
  Index fill(Index sample, std::span<const Tensor> out) override {
    const Random random = random_for(7, "absolute values", static_cast<std::uint64_t>(sample));
    for (Index i = 0; i < width; ++i) {
      const float x = 2 * random.uniform(i) - 1;
      if (out[0].data != nullptr) out[0].as<float>()[i] = x;
      if (out[1].data != nullptr) out[1].as<float>()[i] = std::fabs(x);
    }
    return width;
  }
};

int main(int argc, char** argv) {
  Application application{.name = "custom_op", .description = "Learns |x| with an op of its own."};
  application.defaults.train_iters = 200;
  application.defaults.learning_rate.lr = 1e-2;
  return run(argc, argv, application, [](Context& context) {
    const auto checked = [](Graph&, const Values& in) { return swish(in[0]); };
    const auto error = gradient_check(checked, {{Spec{7, 33}, -3, 3}}, context.device());
    require(error < 1e-4, "the slope of swish is wrong: ", error);
    AbsoluteValues data;
    Trainer trainer(context, Model([&](Graph& g) {
                      const Shape shape{context.options().micro_batch_size, width};
                      const Value h = swish(column_linear(g.input("x", shape), "up", 4 * width));
                      return squared_error(row_linear(h, "down", width), g.input("y", shape));
                    }));
    trainer.fit(data);
  });
}
