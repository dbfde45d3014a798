// A model with an op that has a CUDA kernel of its own (swish.cu): it learns y = |x| elementwise.
// mpirun -np 2 custom_kernel --tp 2
#include "swish.h"

using namespace trireme;

constexpr Index width = 32;

/// Sample n: uniform numbers and their absolute values.
class AbsoluteValues final : public DataSource {
 public:
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

/// A residual block over the tensor axis, with our activation between column_linear and row_linear.
Value block(Value x) {
  const Value h = swish(column_linear(rms_norm(x, "norm"), "up", 4 * width), 1.3f);
  return x + row_linear(h, "down", width);
}

int main(int argc, char** argv) {
  Application application;
  application.name = "custom_kernel";
  application.description = "Trains a small model that uses a CUDA kernel of its own.";
  application.defaults.global_batch_size = 32;
  application.defaults.micro_batch_size = 4;
  application.defaults.train_iters = 200;
  application.defaults.log_interval = 50;
  application.defaults.learning_rate.lr = 1e-2;
  return run(argc, argv, application, [](Context& context) {
    const Index batch = context.options().micro_batch_size;
    AbsoluteValues data;
    Trainer trainer(context, Model([&](Graph& g) {
                      Value x = g.input("x", {batch, width});
                      for (int i = 0; i < 4; ++i) x = g.block("block", i, [&] { return block(x); });
                      return squared_error(x, g.input("y", {batch, width}));
                    }));
    const double before = trainer.evaluate(data, 4);
    trainer.fit(data);
    const double after = trainer.evaluate(data, 4);
    context.log().info(str("mean squared error: ", before, " before training, ", after, " after"));
    require(after < 0.2 * before, "training did not lower the error enough: ", before, " to ",
            after);
  });
}
