// Cross-entropy on CPUs against a reference in fp64, on one rank and over several.
#include "trireme/kernels/cross_entropy.h"

#include <algorithm>

#include "runtime/core/at.h"
#include "tests/kernels/all_instruction_sets.h"

namespace trireme {
namespace {

// `ranks` parts of a vocabulary, each with `padding` columns that hold rubbish.
struct Problem {
  Index rows, vocabulary, ranks, padding;
  Index columns() const { return (vocabulary + ranks - 1) / ranks; }
  Index stride() const { return columns() + padding; }
  Index first(Index rank) const { return rank * columns(); }
  Index columns_of(Index rank) const {
    return std::clamp<Index>(vocabulary - first(rank), 0, columns());
  }
};

void check_loss(const Problem& p, float range) {
  SCOPED_TRACE(str("rows ", p.rows, " vocabulary ", p.vocabulary, " ranks ", p.ranks));
  const Floats logits = random_values(p.ranks * p.rows * p.stride(), "logits", -range, range);
  auto targets = random_tokens(p.rows, p.vocabulary, "targets");
  if (p.rows > 2) targets[1] = ignored_target;
  const auto index = [&](Index row, Index column) {
    const Index rank = column / p.columns();
    return (rank * p.rows + row) * p.stride() + column - p.first(rank);
  };
  const double scale = 0.125;
  double expected_loss = 0;
  Doubles expected_logsumexp, expected(logits.size());
  for (Index r = 0; r < p.rows; ++r) {
    double sum = 0;
    for (Index v = 0; v < p.vocabulary; ++v)
      sum += std::exp(static_cast<double>(logits[at(index(r, v))]));
    expected_logsumexp.push_back(std::log(sum));
    const std::int32_t target = targets[at(r)];
    if (target < 0) continue;
    expected_loss += std::log(sum) - static_cast<double>(logits[at(index(r, target))]);
    for (Index v = 0; v < p.vocabulary; ++v)
      expected[at(index(r, v))] =
          scale *
          (std::exp(static_cast<double>(logits[at(index(r, v))])) / sum - (v == target ? 1 : 0));
  }
  double with_one_thread = 0;
  Floats logsumexp(at(p.rows));
  const auto run = [&](Stream& s, bool in_place) {
    const CrossEntropyKernels& k = s.kernels().cross_entropy;
    std::vector<RowPartial> partials(at(p.ranks * p.rows));
    Floats x = logits, dlogits(logits.size(), 7.0f);
    for (Index rank = 0; rank < p.ranks; ++rank)
      k.partial(s, {p.rows, p.columns_of(rank), p.stride(), p.first(rank),
                    x.data() + rank * p.rows * p.stride(), targets.data(),
                    partials.data() + rank * p.rows});
    double loss = -1;
    k.combine(s, {p.rows, static_cast<int>(p.ranks), partials.data(), targets.data(),
                  logsumexp.data(), &loss});
    EXPECT_NEAR(loss, expected_loss, 3e-7 * expected_loss + 1e-6);
    if (s.pool().threads() == 1) with_one_thread = loss;
    EXPECT_EQ(loss, with_one_thread);
    Floats& out = in_place ? x : dlogits;
    for (Index rank = 0; rank < p.ranks; ++rank)
      k.backward(s, {p.rows, p.columns_of(rank), p.stride(), p.stride(), p.first(rank),
                     x.data() + rank * p.rows * p.stride(), targets.data(), logsumexp.data(),
                     &scale, out.data() + rank * p.rows * p.stride()});
    return out;
  };
  expect_everywhere([&](Stream& s) { return run(s, false); }, expected, 2e-6);
  expect_everywhere([&](Stream& s) { return run(s, true); }, expected, 2e-6);
  expect_everywhere([&](Stream& s) { return run(s, true), logsumexp; }, expected_logsumexp, 3e-7);
}

TEST(CrossEntropy, MatchesTheReference) {
  check_loss({1, 1, 1, 0}, 1);
  check_loss({3, 31, 1, 0}, 4);
  check_loss({33, 33, 1, 5}, 4);
  check_loss({129, 256, 1, 0}, 10);
  check_loss({5, 5003, 1, 3}, 20);
}

TEST(CrossEntropy, OverSeveralRanksMatchesTheReference) {
  check_loss({33, 256, 4, 0}, 4);
  check_loss({33, 257, 4, 3}, 4);
  check_loss({5, 9, 4, 2}, 4);  // the last rank has no column at all
}

TEST(CrossEntropy, SurvivesLogitsThatOverflowExp) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  const Floats logits = {1000, 999, -1000, 500};
  const std::int32_t target = 1;
  RowPartial partial;
  float logsumexp;
  double loss;
  stream->kernels().cross_entropy.partial(*stream, {1, 4, 4, 0, logits.data(), &target, &partial});
  stream->kernels().cross_entropy.combine(*stream, {1, 1, &partial, &target, &logsumexp, &loss});
  EXPECT_NEAR(loss, 1 + std::log1p(std::exp(-1.0)), 1e-6);
}

TEST(CrossEntropy, InBf16LossAndGradientAreThoseOfF32RoundedOnce) {
  for (const Index columns : {1, 33, 5003})
    expect_rounded_once([&](Stream& s, Arrays& a) {
      const Index rows = 7, stride = columns + 3;
      auto targets = random_tokens(rows, columns, "targets");
      targets[1] = ignored_target;
      void* logits = a.put(random_values(rows * stride, "logits", -9, 9));
      std::vector<RowPartial> partial(at(rows));
      float* logsumexp = a.put_f32(Floats(at(rows)));
      double loss = 0;
      const double scale = 0.125;
      const CrossEntropyKernels& k = s.kernels().cross_entropy;
      k.partial(s, {rows, columns, stride, 0, logits, targets.data(), partial.data(), a.dtype});
      k.combine(s, {rows, 1, partial.data(), targets.data(), logsumexp, &loss});
      a.put_f32({static_cast<float>(loss)});
      k.backward(s, {rows, columns, columns + 2, stride, 0, logits, targets.data(), logsumexp,
                     &scale, logits, a.dtype});
    });
}

}  // namespace
}  // namespace trireme
