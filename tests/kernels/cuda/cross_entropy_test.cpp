// Cross-entropy on a GPU agrees with that on the CPU.
#include "trireme/kernels/cross_entropy.h"

#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {
namespace {

struct LogitShape {
  Index rows, columns, padded_columns, row_stride;
};
// One column, less than a pack, odd strides (rows begin anywhere), more than one pack a thread.
const std::vector<LogitShape> logit_shapes = {{1, 1, 1, 1},          {3, 2, 3, 5},
                                              {7, 101, 101, 101},    {5, 97, 104, 104},
                                              {3, 5003, 5011, 5013}, {2, 0, 8, 8}};

std::vector<std::int32_t> targets_of(Index rows, Index columns, Index first) {
  std::vector<std::int32_t> targets;
  for (Index r = 0; r < rows; ++r)
    targets.push_back(r % 3 == 2 ? ignored_target
                                 : static_cast<std::int32_t>(first - 1 + r * 7919 % (columns + 2)));
  return targets;  // a few belong to other ranks
}

TEST(CudaCrossEntropy, PartialsAndGradientsAgree) {
  for (const DType dtype : storage_types)
    for (const Index shift : {0, 1, 3})
      expect_agree(
          [&](Bench& b) {
            for (const LogitShape& s : logit_shapes)
              for (const bool in_place : {false, true}) {
                const Index first = 50;
                void* logits =
                    b.put(random_floats(s.rows * s.row_stride, "x", -9, 9), dtype, shift);
                const std::int32_t* targets = b.put(targets_of(s.rows, s.columns, first));
                float* partial = b.put(Floats(static_cast<std::size_t>(3 * s.rows)));
                const float* logsumexp = b.put(random_floats(s.rows, "lse", 9, 11));
                const double* scale = b.put(std::vector<double>{0.125});
                void* other = b.put(random_floats(s.rows * s.row_stride, "dx"), dtype);
                const CrossEntropyKernels& k = b.kernels().cross_entropy;
                k.partial(b.stream(), {s.rows, s.columns, s.row_stride, first, logits, targets,
                                       reinterpret_cast<RowPartial*>(partial), dtype});
                k.backward(b.stream(),
                           {s.rows, s.columns, s.padded_columns, s.row_stride, first, logits,
                            targets, logsumexp, scale, in_place ? logits : other, dtype});
              }
          },
          2e-7);
}

TEST(CudaCrossEntropy, MaskedLogitsCountAsNothing) {
  Floats x = random_floats(1100, "x");
  for (std::size_t i = 0; i < x.size(); i += 2) x[i] = -HUGE_VALF;
  expect_agree(
      [&](Bench& b) {
        const float* logits = b.put(x);
        const std::int32_t* targets = b.put(std::vector<std::int32_t>{3});
        float* partial = b.put(Floats(3));
        b.kernels().cross_entropy.partial(b.stream(), {1, 1100, 1100, 0, logits, targets,
                                                       reinterpret_cast<RowPartial*>(partial)});
      },
      2e-7);
}

// The largest logit drops it (Max); the sum does not, and so the loss.
TEST(CudaCrossEntropy, ANaNShowsInTheLoss) {
  constexpr Index rows = 2, columns = 1100;
  for (const DType dtype : storage_types)
    for (const std::size_t bad : {0, 700, 1099}) {
      Floats x = random_floats(rows * columns, "x");
      x[columns + bad] = std::nanf("");
      in_every_order([&] {
        Bench b(open_gpu());
        const CrossEntropyKernels& k = b.kernels().cross_entropy;
        const void* logits = b.put(x, dtype);
        const std::int32_t* targets = b.put(std::vector<std::int32_t>{3, 3});
        auto* partial = reinterpret_cast<RowPartial*>(b.put(Floats(3 * rows)));
        float* logsumexp = b.put(Floats(rows));
        double* loss = b.put(std::vector<double>{0});
        k.partial(b.stream(), {rows, columns, columns, 0, logits, targets, partial, dtype});
        k.combine(b.stream(), {rows, 1, partial, targets, logsumexp, loss});
        const std::vector<Element> all = b.results();
        EXPECT_TRUE(std::isnan(all.back().value)) << "the loss";
        EXPECT_TRUE(std::isnan(all[all.size() - 2].value)) << "the row";
        EXPECT_TRUE(std::isfinite(all[all.size() - 3].value)) << "another row";
      });
    }
}

TEST(CudaCrossEntropy, RanksAreCombinedInFp64) {
  expect_agree(
      [](Bench& b) {
        for (const Index rows : {1, 33, 1000})
          for (const int ranks : {1, 3}) {
            std::vector<RowPartial> host;
            const Floats max = random_floats(rows * ranks, "max", -3, 9),
                         sum = random_floats(rows * ranks, "sum", 1, 5);
            for (std::size_t i = 0; i < max.size(); ++i)
              host.push_back({max[i], sum[i], i < static_cast<std::size_t>(rows) ? 0.5f : 0.0f});
            const RowPartial* partials = b.put(host);
            const std::int32_t* targets = b.put(targets_of(rows, 50, 1));
            float* logsumexp = b.put(Floats(static_cast<std::size_t>(rows)));
            double* loss = b.put(std::vector<double>{7});
            b.kernels().cross_entropy.combine(b.stream(),
                                              {rows, ranks, partials, targets, logsumexp, loss});
          }
      },
      1e-13);  // of the largest loss
}

}  // namespace
}  // namespace trireme::test
