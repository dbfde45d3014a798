// Elementwise formulas, products and sums on CPUs, with their gradients, against references in
// fp64.
#include "trireme/kernels/arithmetic.h"

#include "runtime/core/at.h"
#include "tests/kernels/all_instruction_sets.h"

namespace trireme {
namespace {

const std::vector<Index> arithmetic_counts = {1, 31, 33, 4096, 20011};
const std::vector<Formula> formulas = {Formula::scale, Formula::sigmoid, Formula::tanh,
                                       Formula::relu, Formula::exp};
constexpr float factor = -1.5f;

double value(Formula formula, double x) {
  switch (formula) {
    case Formula::scale:
      return -1.5 * x;
    case Formula::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Formula::tanh:
      return std::tanh(x);
    case Formula::relu:
      return std::max(x, 0.0);
    case Formula::exp:
      return std::exp(x);
  }
  return 0;
}
double slope(Formula formula, double x) {
  const double y = value(formula, x);
  switch (formula) {
    case Formula::scale:
      return -1.5;
    case Formula::sigmoid:
      return y * (1 - y);
    case Formula::tanh:
      return 1 - y * y;
    case Formula::relu:
      return x > 0 ? 1 : 0;
    case Formula::exp:
      return y;
  }
  return 0;
}

double wide(float x) { return static_cast<double>(x); }

TEST(Arithmetic, FormulasMatchTheReferenceAlsoInPlace) {
  for (const Formula formula : formulas)
    for (const Index count : arithmetic_counts) {
      const Floats x = random_values(count, "x", -6, 6);
      Doubles expected;
      for (const float v : x) expected.push_back(value(formula, wide(v)));
      expect_everywhere(
          [&](Stream& s) {
            Floats y(at(count)), z = x;
            const auto forward = s.kernels().arithmetic.formula_forward;
            forward(s, {formula, count, x.data(), y.data(), factor});
            forward(s, {formula, count, z.data(), z.data(), factor});
            EXPECT_TRUE(same_bits(y, z));
            return y;
          },
          expected, 4e-7);
    }
}

TEST(Arithmetic, SlopesOfFormulasMatchTheReferenceAssignedAddedAndInPlace) {
  for (const Formula formula : formulas)
    for (const Index count : arithmetic_counts)
      for (const Write write : {Write::assign, Write::add}) {
        const Floats x = random_values(count, "x", -6, 6), dy = random_values(count, "dy"),
                     before = random_values(count, "dx");
        Floats saved = x;
        Doubles expected;
        for (Index i = 0; i < count; ++i) {
          expected.push_back(wide(dy[at(i)]) * slope(formula, wide(x[at(i)])) +
                             (write == Write::add ? wide(before[at(i)]) : 0));
          if (slope_of(formula) == SlopeOf::output)
            saved[at(i)] = static_cast<float>(value(formula, wide(x[at(i)])));
        }
        const void* read = slope_of(formula) == SlopeOf::nothing ? nullptr : saved.data();
        expect_everywhere(
            [&](Stream& s) {
              const auto backward = s.kernels().arithmetic.formula_backward;
              Floats dx = before, z = dy;
              backward(s, {formula, count, read, dy.data(), dx.data(), factor, write});
              if (write == Write::add) return dx;
              backward(s, {formula, count, read, z.data(), z.data(), factor, write});
              EXPECT_TRUE(same_bits(dx, z));
              return dx;
            },
            expected, 1e-6);
      }
}

TEST(Arithmetic, SlopesKeepTheirDigitsWhereTheyAreSmall) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  for (const float x : {-20.0f, -5.0f, 5.0f, 20.0f}) {
    const float dy = 1;
    float dx = 0;
    stream->kernels().arithmetic.formula_backward(*stream, {Formula::sigmoid, 1, &x, &dy, &dx});
    const double e = std::exp(-std::fabs(wide(x))), expected = e / ((1 + e) * (1 + e));
    EXPECT_NEAR(wide(dx) / expected, 1, 1e-6) << x;
  }
}

TEST(Arithmetic, ANanPassesThroughEveryFormula) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  for (const Formula formula : formulas) {
    float x = NAN;
    stream->kernels().arithmetic.formula_forward(*stream, {formula, 1, &x, &x});
    EXPECT_TRUE(std::isnan(x));
  }
}

TEST(Arithmetic, ProductsAndDifferencesAreExact) {
  for (const Index count : arithmetic_counts) {
    const Floats a = random_values(count, "a"), b = random_values(count, "b");
    Doubles products, differences;
    for (Index i = 0; i < count; ++i) {
      products.push_back(wide(a[at(i)] * b[at(i)]));
      differences.push_back(wide(a[at(i)] - b[at(i)]));
    }
    const auto run = [&](bool product, bool over_b) {
      return [&, product, over_b](Stream& s) {
        const ArithmeticKernels& k = s.kernels().arithmetic;
        Floats x = a, y = b;
        k.pair_forward(s, {product ? PairFormula::product : PairFormula::difference, count,
                           x.data(), y.data(), over_b ? y.data() : x.data()});
        return over_b ? y : x;
      };
    };
    for (const bool over_b : {false, true}) {
      expect_everywhere(run(true, over_b), products, 0);
      expect_everywhere(run(false, over_b), differences, 0);
    }
  }
}

TEST(Arithmetic, GradientsOfProductsAreThoseThatAreWanted) {
  constexpr Index count = 5000;
  const Floats a = random_values(count, "a"), b = random_values(count, "b"),
               dy = random_values(count, "dy"), before = random_values(count, "da");
  Doubles da, db, both;
  for (std::size_t i = 0; i < a.size(); ++i) {
    da.push_back(wide(dy[i]) * wide(b[i]));
    db.push_back(wide(dy[i]) * wide(a[i]) + wide(before[i]));
    both.push_back(da.back() + wide(dy[i]) * wide(a[i]));
  }
  const auto run = [&](Stream& s, float* to_a, float* to_b, Write write_b, const float* from) {
    s.kernels().arithmetic.product_backward(
        s, {count, a.data(), b.data(), from, to_a, to_b, Write::assign, write_b});
  };
  expect_everywhere(
      [&](Stream& s) {
        Floats x = dy;  // over the gradient of the result
        run(s, x.data(), nullptr, Write::assign, x.data());
        return x;
      },
      da, 2e-7);
  expect_everywhere(
      [&](Stream& s) {
        Floats x = before;
        run(s, nullptr, x.data(), Write::add, dy.data());
        return x;
      },
      db, 2e-7);
  expect_everywhere(
      [&](Stream& s) {
        Floats x = before;
        run(s, x.data(), x.data(), Write::add, dy.data());  // a value times itself
        return x;
      },
      both, 2e-7);
}

TEST(Arithmetic, SumsAreInFp64AndTheirGradientIsTheSameEverywhere) {
  for (const Index count : arithmetic_counts) {
    Floats x = random_values(count, "x");
    x[0] = 1e8f;  // in fp32 the others would lose their digits beside it
    double sum = 0;
    for (const float v : x) sum += wide(v);
    for (const InstructionSet set : instruction_sets()) {
      double first = 0;
      for (const int threads : {1, 2, 3}) {
        const auto device = open_cpu({threads, set});
        const auto s = device->make_stream();
        double got = 0;
        s->kernels().arithmetic.sum_forward(*s, {count, x.data(), &got, 0.5});
        EXPECT_NEAR(got, sum / 2, 1e-6 * std::sqrt(static_cast<double>(count)));
        if (threads == 1) first = got;
        EXPECT_EQ(got, first) << threads << " threads";
      }
    }
    const double seed = 3;
    expect_everywhere(
        [&](Stream& s) {
          Floats dx(at(count), 1.0f);
          const auto backward = s.kernels().arithmetic.sum_backward;
          backward(s, {count, &seed, dx.data(), 0.5, Write::assign});
          backward(s, {count, &seed, dx.data(), 0.5, Write::add});
          return dx;
        },
        Doubles(at(count), 3.0), 0);
  }
}

TEST(Arithmetic, Bf16IsRoundedOnce) {
  for (const Index count : arithmetic_counts) {
    for (const Formula formula : formulas)
      expect_rounded_once([&](Stream& s, Arrays& a) {
        const ArithmeticKernels& k = s.kernels().arithmetic;
        void* x = a.put(random_values(count, "x", -6, 6));
        void* dy = a.put(random_values(count, "dy"));
        void* y = a.put(Floats(at(count)));
        void* dx = a.put(random_values(count, "dx"));
        void* added = a.put(random_values(count, "dx"));
        k.formula_forward(s, {formula, count, x, y, factor, a.dtype});
        k.formula_backward(s, {formula, count, x, dy, dx, factor, Write::assign, a.dtype});
        k.formula_backward(s, {formula, count, x, dy, added, factor, Write::add, a.dtype});
      });
    expect_rounded_once([&](Stream& s, Arrays& a) {
      const ArithmeticKernels& k = s.kernels().arithmetic;
      void* x = a.put(random_values(count, "x"));
      void* y = a.put(random_values(count, "y"));
      void* product = a.put(Floats(at(count)));
      void* difference = a.put(Floats(at(count)));
      void* dx = a.put(Floats(at(count)));
      void* dy = a.put(random_values(count, "dy"));
      void* constant = a.put(random_values(count, "constant"));
      const double seed = 0.3;
      double sum = 0;
      k.pair_forward(s, {PairFormula::product, count, x, y, product, a.dtype});
      k.pair_forward(s, {PairFormula::difference, count, x, y, difference, a.dtype});
      k.product_backward(s, {count, x, y, x, dx, dy, Write::assign, Write::add, a.dtype});
      k.sum_backward(s, {count, &seed, constant, 1, Write::add, a.dtype});
      k.sum_forward(s, {count, x, &sum, 1, a.dtype});
      double expected = 0;
      for (const float v : floats_of(bf16_of(random_values(count, "x")))) expected += wide(v);
      EXPECT_NEAR(sum, expected, 1e-10);
    });
  }
}

TEST(Arithmetic, OtherTypesAreRefused) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  Stream& s = *stream;
  const ArithmeticKernels& k = s.kernels().arithmetic;
  constexpr auto f64 = DType::f64;
  constexpr auto assign = Write::assign;
  EXPECT_THROW(k.formula_forward(s, {Formula::exp, 0, nullptr, nullptr, 1, f64}), Error);
  EXPECT_THROW(k.formula_backward(s, {Formula::exp, 0, nullptr, nullptr, nullptr, 1, assign, f64}),
               Error);
  EXPECT_THROW(k.pair_forward(s, {PairFormula::product, 0, nullptr, nullptr, nullptr, f64}), Error);
  EXPECT_THROW(
      k.product_backward(s, {0, nullptr, nullptr, nullptr, nullptr, nullptr, assign, assign, f64}),
      Error);
  EXPECT_THROW(
      k.pair_forward(s, {PairFormula::difference, 0, nullptr, nullptr, nullptr, DType::i32}),
      Error);
  EXPECT_THROW(k.sum_forward(s, {0, nullptr, nullptr, 1, f64}), Error);
  EXPECT_THROW(k.sum_backward(s, {-1, nullptr, nullptr}), Error);
}

}  // namespace
}  // namespace trireme
