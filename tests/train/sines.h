// A small model that learns sines, in any layout: for tests of the trainer on ranks as threads.
#pragma once

#include <cmath>
#include <functional>

#include "trireme/kernels/device.h"
#include "trireme/nn/nn.h"
#include "trireme/train/trainer.h"

namespace trireme {

inline constexpr Index width = 8;

/// x: `width` numbers of the sample; y: their sines.
class Sines : public DataSource {
 public:
  Index fill(Index sample, std::span<const Tensor> out) override {
    const Random random = random_for(3, "sines", static_cast<std::uint64_t>(sample));
    for (Index i = 0; i < width; ++i) {
      const float x = 6 * random.uniform(i) - 3;
      if (out[0].data != nullptr) out[0].as<float>()[i] = x;
      if (out[1].data != nullptr) out[1].as<float>()[i] = std::sin(x);
    }
    return width;
  }
};

inline Value mlp_block(Value x) {
  const Value h = gelu_tanh(column_linear(rms_norm(x, "norm"), "up", 4 * width));
  return x + row_linear(h, "down", width);
}
inline Value mlp_blocks(Graph& g, Index batch) {
  Value x = g.input("x", {batch, width});
  for (int i = 0; i < 4; ++i) x = g.block("block", i, [&] { return mlp_block(x); });
  return x;
}
inline Value mlp(Graph& g, Index batch) {
  const Value x = mlp_blocks(g, batch);
  return squared_error(x, g.input("y", {batch, width}));
}

struct Layout {
  int data = 1, pipeline = 1, tensor = 1, chunks = 1;
  Index micro_batch = 1;
  bool zero = false;
  bool bf16 = false;
  bool v = false;  // the schedule zero-bubble-v
  friend void PrintTo(const Layout& l, std::ostream* out) {
    *out << "data " << l.data << " pipeline " << l.pipeline << " tensor " << l.tensor << " chunks "
         << l.chunks << " micro-batch " << l.micro_batch << (l.zero ? " zero" : "")
         << (l.v ? " v" : "");
  }
};

inline Options options_for(const Layout& layout) {
  Options o;
  o.tensor_size = layout.tensor;
  o.pipeline_size = layout.pipeline;
  o.chunks = layout.chunks;
  if (layout.chunks > 1)
    o.schedule = layout.v ? ScheduleKind::zero_bubble_v : ScheduleKind::interleaved;
  o.use_distributed_optimizer = layout.zero;
  o.bf16 = layout.bf16;
  o.micro_batch_size = layout.micro_batch;
  o.global_batch_size = 8;
  o.train_iters = 5;
  o.bucket_size = 100;
  o.learning_rate.lr = 1e-2;
  o.learning_rate.decay_iters = 5;
  o.log_level = LogLevel::quiet;
  return o;
}

/// f(context) on every rank of the layout.
inline void on_ranks(const Layout& layout, const Options& options,
                     const std::function<void(Context&)>& f,
                     const ThreadTransport& transport = {}) {
  const auto rank = [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), LogLevel::quiet);
    Context context(options, mesh, *stream, log);
    f(context);
  };
  run_on_threads(MeshShape(layout.data, layout.pipeline, layout.tensor), rank, transport);
}

}  // namespace trireme
