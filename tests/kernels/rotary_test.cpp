// Rotary embeddings on CPUs against their formula.
#include "trireme/kernels/rotary.h"

#include "runtime/core/at.h"
#include "tests/kernels/all_instruction_sets.h"

namespace trireme {
namespace {

double angle_of(Index position, Index pair, Index head_dim) {
  return static_cast<double>(position) *
         std::pow(1e4, -2.0 * static_cast<double>(pair) / static_cast<double>(head_dim));
}

Floats table_of(Index sequence, Index head_dim) {
  Floats table(at(sequence * head_dim));
  for (Index position = 0; position < sequence; ++position)
    for (Index j = 0; j < head_dim / 2; ++j) {
      const double angle = angle_of(position, j, head_dim);
      table[at(position * head_dim + j)] = static_cast<float>(std::cos(angle));
      table[at(position * head_dim + head_dim / 2 + j)] = static_cast<float>(std::sin(angle));
    }
  return table;
}

Doubles turned(const Floats& x, const Rotary& p, double sign) {
  Doubles y = to_double(x);
  for (Index row = 0; row < p.rows; ++row)
    for (Index head = 0; head < p.heads; ++head)
      for (Index j = 0; j < p.head_dim / 2; ++j) {
        const double angle = sign * angle_of(row % p.sequence, j, p.head_dim);
        const Index a = row * p.row_stride + head * p.head_dim + j, b = a + p.head_dim / 2;
        const double u = static_cast<double>(x[at(a)]), v = static_cast<double>(x[at(b)]);
        y[at(a)] = u * std::cos(angle) - v * std::sin(angle);
        y[at(b)] = v * std::cos(angle) + u * std::sin(angle);
      }
  return y;
}

TEST(Rotary, TurnsPairsOfTheFirstHeadsAndCopiesTheRest) {
  for (const Index head_dim : {Index{2}, Index{10}, Index{64}, Index{66}}) {
    const Index rows = 62, sequence = 31, heads = 3, stride = 3 * head_dim + 7;
    const Floats x = random_values(rows * stride, "x");
    for (const auto direction : {Rotary::Direction::forward, Rotary::Direction::backward}) {
      const Floats table = table_of(sequence, head_dim);
      Rotary p = {direction, rows,     sequence, heads,       head_dim,
                  stride,    x.data(), nullptr,  table.data()};
      expect_everywhere(
          [&](Stream& s) {
            Floats y(x.size()), in_place = x;
            Rotary apart = p, over = p;
            apart.y = y.data();
            over.x = over.y = in_place.data();
            s.kernels().rotary.run(s, apart);
            s.kernels().rotary.run(s, over);
            EXPECT_TRUE(same_bits(y, in_place));
            return y;
          },
          turned(x, p, direction == Rotary::Direction::forward ? 1 : -1), 5e-7);
    }
  }
}

TEST(Rotary, Bf16IsRoundedOnce) {
  for (const Index head_dim : {Index{2}, Index{10}, Index{66}})
    for (const auto direction : {Rotary::Direction::forward, Rotary::Direction::backward})
      expect_rounded_once([&](Stream& s, Arrays& a) {
        const Index rows = 62, sequence = 31, heads = 3, stride = 3 * head_dim + 7;
        const Floats table = table_of(sequence, head_dim);
        void* x = a.put(random_values(rows * stride, "x"));
        Rotary p = {direction, rows, sequence, heads,        head_dim,
                    stride,    x,    nullptr,  table.data(), a.dtype};
        p.y = a.put(Floats(at(rows * stride)));
        s.kernels().rotary.run(s, p);
        p.y = x;
        s.kernels().rotary.run(s, p);
      });
}

TEST(Rotary, RejectsAnOddHeadDim) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  Rotary p{};
  p.sequence = 1;
  p.head_dim = 5;
  EXPECT_THROW(stream->kernels().rotary.run(*stream, p), Error);
}

TEST(Rotary, RejectsOtherTypes) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  Rotary p{};
  p.sequence = 1;
  p.head_dim = 2;
  p.dtype = DType::f64;
  EXPECT_THROW(stream->kernels().rotary.run(*stream, p), Error);
}

}  // namespace
}  // namespace trireme
