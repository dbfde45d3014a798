// Activations and their gradients on CPUs against references in fp64.
#include "trireme/kernels/activation.h"

#include "runtime/core/at.h"
#include "tests/kernels/all_instruction_sets.h"

namespace trireme {
namespace {

double value(Activation kind, double x) {
  switch (kind) {
    case Activation::gelu_tanh:  // (1 + tanh(u)) / 2, without cancellation
      return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return 0;
}
double slope(Activation kind, double x) {
  const double h = 1e-5 * std::max(1.0, std::fabs(x));
  return (8 * (value(kind, x + h) - value(kind, x - h)) -
          (value(kind, x + 2 * h) - value(kind, x - 2 * h))) /
         (12 * h);
}

const std::vector<Index> activation_counts = {1, 31, 33, 4096, 20011};

class Activations : public testing::TestWithParam<Activation> {};

TEST_P(Activations, ForwardMatchesTheReferenceAlsoInPlace) {
  for (Index count : activation_counts) {
    const Floats x = random_values(count, "x", -6, 6);
    Doubles expected;
    for (float v : x) expected.push_back(value(GetParam(), static_cast<double>(v)));
    expect_everywhere(
        [&](Stream& s) {
          Floats y(at(count)), z = x;
          s.kernels().activation.forward(s, {GetParam(), count, x.data(), y.data()});
          s.kernels().activation.forward(s, {GetParam(), count, z.data(), z.data()});
          EXPECT_TRUE(same_bits(y, z));
          return y;
        },
        expected, 4e-7);
  }
}

TEST_P(Activations, ForwardIsAccurateInTheTails) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  const Floats x = random_values(20000, "tails", -9, 9);
  Floats y(x.size());
  stream->kernels().activation.forward(*stream, {GetParam(), 20000, x.data(), y.data()});
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double e = value(GetParam(), static_cast<double>(x[i]));
    // The tanh form's argument grows like x^3, and with it what its rounding does to the result.
    if (std::fabs(e) <= 1e-20) continue;
    ASSERT_LE(std::fabs(static_cast<double>(y[i]) - e),
              (GetParam() == Activation::gelu_tanh ? 1e-5 : 2e-6) * std::fabs(e))
        << x[i];
  }
}

TEST_P(Activations, BackwardMatchesTheReferenceAssignedAddedAndInPlace) {
  for (Index count : activation_counts) {
    const Floats x = random_values(count, "x", -6, 6), dy = random_values(count, "dy"),
                 before = random_values(count, "dx");
    for (Write write : {Write::assign, Write::add}) {
      Doubles expected;
      for (Index i = 0; i < count; ++i)
        expected.push_back(static_cast<double>(dy[at(i)]) *
                               slope(GetParam(), static_cast<double>(x[at(i)])) +
                           (write == Write::add ? static_cast<double>(before[at(i)]) : 0));
      expect_everywhere(
          [&](Stream& s) {
            Floats dx = before;
            s.kernels().activation.backward(
                s, {GetParam(), count, x.data(), dy.data(), dx.data(), write});
            if (write == Write::assign) {
              Floats z = dy;
              s.kernels().activation.backward(
                  s, {GetParam(), count, x.data(), z.data(), z.data(), write});
              EXPECT_TRUE(same_bits(dx, z));
            }
            return dx;
          },
          expected, 1e-6);
    }
  }
}

TEST_P(Activations, Bf16IsRoundedOnce) {
  for (Index count : activation_counts)
    expect_rounded_once([&](Stream& s, Arrays& a) {
      const ActivationKernels& k = s.kernels().activation;
      void* x = a.put(random_values(count, "x", -6, 6));
      void* dy = a.put(random_values(count, "dy"));
      void* y = a.put(Floats(at(count)));
      void* dx = a.put(random_values(count, "dx"));
      void* added = a.put(random_values(count, "dx"));
      k.forward(s, {GetParam(), count, x, y, a.dtype});
      k.backward(s, {GetParam(), count, x, dy, dx, Write::assign, a.dtype});
      k.backward(s, {GetParam(), count, x, dy, added, Write::add, a.dtype});
      k.backward(s, {GetParam(), count, x, dy, dy, Write::assign, a.dtype});
      k.forward(s, {GetParam(), count, x, x, a.dtype});
    });
}

INSTANTIATE_TEST_SUITE_P(Kinds, Activations,
                         testing::Values(Activation::gelu_tanh, Activation::gelu_erf,
                                         Activation::silu),
                         [](const auto& kind) {
                           return kind.param == Activation::gelu_tanh  ? "GeluTanh"
                                  : kind.param == Activation::gelu_erf ? "GeluErf"
                                                                       : "Silu";
                         });

TEST(Swiglu, MatchesTheReference) {
  for (const auto& [rows, channels] :
       {std::pair<Index, Index>{1, 1}, {3, 31}, {33, 33}, {64, 96}}) {
    const Floats gate_up = random_values(rows * 2 * channels, "gate_up", -4, 4),
                 dy = random_values(rows * channels, "dy");
    const Floats before = random_values(rows * 2 * channels, "before");
    Doubles y(at(rows * channels)), dx(at(rows * 2 * channels)), added;
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < channels; ++c) {
        const Index g = r * 2 * channels + c, u = g + channels, i = r * channels + c;
        const double gate = static_cast<double>(gate_up[at(g)]),
                     up = static_cast<double>(gate_up[at(u)]);
        y[at(i)] = value(Activation::silu, gate) * up;
        dx[at(g)] = static_cast<double>(dy[at(i)]) * up * slope(Activation::silu, gate);
        dx[at(u)] = static_cast<double>(dy[at(i)]) * value(Activation::silu, gate);
      }
    for (std::size_t i = 0; i < dx.size(); ++i)
      added.push_back(dx[i] + static_cast<double>(before[i]));
    const Index n = rows, m = channels;
    expect_everywhere(
        [&](Stream& s) {
          Floats out(at(n * m));
          s.kernels().activation.swiglu_forward(s, {n, m, gate_up.data(), out.data()});
          return out;
        },
        y, 2e-7);
    const auto backward = [&](Write write, bool in_place) {
      return [&, write, in_place](Stream& s) {
        Floats out = in_place ? gate_up : before;
        s.kernels().activation.swiglu_backward(
            s, {n, m, in_place ? out.data() : gate_up.data(), dy.data(), out.data(), write});
        return out;
      };
    };
    expect_everywhere(backward(Write::assign, false), dx, 1e-6);
    expect_everywhere(backward(Write::assign, true), dx, 1e-6);
    expect_everywhere(backward(Write::add, false), added, 1e-6);
  }
}

TEST(Swiglu, Bf16IsRoundedOnce) {
  for (const auto& [rows, channels] : {std::pair<Index, Index>{1, 1}, {3, 31}, {33, 33}, {64, 96}})
    for (const Write write : {Write::assign, Write::add})
      expect_rounded_once([&, n = rows, m = channels](Stream& s, Arrays& a) {
        const ActivationKernels& k = s.kernels().activation;
        void* gate_up = a.put(random_values(n * 2 * m, "gate_up", -4, 4));
        void* y = a.put(Floats(at(n * m)));
        void* dy = a.put(random_values(n * m, "dy"));
        void* dgate_up = a.put(random_values(n * 2 * m, "before"));
        k.swiglu_forward(s, {n, m, gate_up, y, a.dtype});
        k.swiglu_backward(s, {n, m, gate_up, dy, dgate_up, write, a.dtype});
        k.swiglu_backward(s, {n, m, gate_up, dy, gate_up, Write::assign, a.dtype});
      });
}

TEST(Activations, OtherTypesAreRefused) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  const ActivationKernels& k = stream->kernels().activation;
  constexpr auto gelu = Activation::gelu_erf;
  constexpr auto assign = Write::assign;
  EXPECT_THROW(k.forward(*stream, {gelu, 0, nullptr, nullptr, DType::f64}), Error);
  EXPECT_THROW(k.backward(*stream, {gelu, 0, nullptr, nullptr, nullptr, assign, DType::i32}),
               Error);
  EXPECT_THROW(k.swiglu_forward(*stream, {0, 1, nullptr, nullptr, DType::f64}), Error);
  EXPECT_THROW(k.swiglu_backward(*stream, {0, 1, nullptr, nullptr, nullptr, assign, DType::f64}),
               Error);
}

}  // namespace
}  // namespace trireme
