// Norms on CPUs and their gradients, alone and fused with the residual, against references in fp64.
#include "trireme/kernels/norm.h"

#include "trireme/kernels/elementwise.h"

#include "runtime/core/at.h"
#include "tests/kernels/all_instruction_sets.h"

namespace trireme {
namespace {

struct Problem {
  NormKind kind;
  Index rows, channels;
  Floats x, delta, weight, bias, dy, dsum;
  Problem(NormKind kind_, Index rows_, Index channels_)
      : kind(kind_),
        rows(rows_),
        channels(channels_),
        x(random_values(rows * channels, "x", -1, 3)),
        delta(random_values(rows * channels, "delta")),
        weight(random_values(channels, "weight", 0.5, 1.5)),
        bias(random_values(channels, "bias")),
        dy(random_values(rows * channels, "dy")),
        dsum(random_values(rows * channels, "dsum")) {}
  Index count() const { return rows * channels; }
  bool layer() const { return kind == NormKind::layer; }
};

constexpr double epsilon = 1e-5;

struct Reference {
  Doubles y, mean, rstd;
  Doubles dx, dweight, dbias;
};

// What is normalised: s. Formulas of the papers, row by row.
Reference reference(const Problem& p, const Floats& s, bool with_bias) {
  Reference r{Doubles(at(p.count())), Doubles(at(p.rows)),     Doubles(at(p.rows)),
              Doubles(at(p.count())), Doubles(at(p.channels)), Doubles(at(p.channels))};
  const double n = static_cast<double>(p.channels);
  for (Index row = 0; row < p.rows; ++row) {
    const Index base = row * p.channels;
    double mean = 0, variance = 0;
    for (Index c = 0; c < p.channels; ++c) mean += static_cast<double>(s[at(base + c)]) / n;
    if (!p.layer()) mean = 0;
    for (Index c = 0; c < p.channels; ++c)
      variance += std::pow(static_cast<double>(s[at(base + c)]) - mean, 2) / n;
    const double rstd = 1 / std::sqrt(variance + epsilon);
    r.mean[at(row)] = mean;
    r.rstd[at(row)] = rstd;
    double sum_g = 0, sum_gh = 0;
    const auto h = [&](Index c) { return (static_cast<double>(s[at(base + c)]) - mean) * rstd; };
    const auto g = [&](Index c) {
      return static_cast<double>(p.dy[at(base + c)]) * static_cast<double>(p.weight[at(c)]);
    };
    for (Index c = 0; c < p.channels; ++c) {
      r.y[at(base + c)] = h(c) * static_cast<double>(p.weight[at(c)]) +
                          (with_bias ? static_cast<double>(p.bias[at(c)]) : 0);
      sum_g += g(c);
      sum_gh += g(c) * h(c);
      r.dweight[at(c)] += static_cast<double>(p.dy[at(base + c)]) * h(c);
      r.dbias[at(c)] += static_cast<double>(p.dy[at(base + c)]);
    }
    if (!p.layer()) sum_g = 0;
    for (Index c = 0; c < p.channels; ++c)
      r.dx[at(base + c)] = rstd * (g(c) - sum_g / n - h(c) * sum_gh / n);
  }
  return r;
}

struct Forward {
  Floats y, sum, mean, rstd;
};

Forward forward(Stream& s, const Problem& p, const float* x, const float* delta, bool with_bias) {
  Forward f{Floats(at(p.count())), Floats(at(p.count())), Floats(at(p.rows)), Floats(at(p.rows))};
  s.kernels().norm.forward(
      s, {p.kind, p.rows, p.channels, static_cast<float>(epsilon), x, delta, p.weight.data(),
          with_bias ? p.bias.data() : nullptr, delta == nullptr ? nullptr : f.sum.data(),
          f.y.data(), p.layer() ? f.mean.data() : nullptr, f.rstd.data()});
  return f;
}

struct Backward {
  Floats dx, dweight, dbias;
};

enum class Parts { all, input, parameters };

Backward backward(Stream& s, const Problem& p, Write write, bool with_dsum,
                  Parts parts = Parts::all) {
  const Forward f = forward(s, p, p.x.data(), nullptr, true);
  Backward b{p.dsum, p.weight, p.bias};  // not zero: parameter gradients are added to
  std::vector<std::byte> workspace(
      at(norm_backward_workspace_bytes(s.device().traits(), p.rows, p.channels)));
  s.kernels().norm.backward(
      s, {p.kind, p.rows, p.channels, p.x.data(), p.weight.data(),
          p.layer() ? f.mean.data() : nullptr, f.rstd.data(), p.dy.data(),
          with_dsum ? b.dx.data() : nullptr, parts == Parts::parameters ? nullptr : b.dx.data(),
          write, parts == Parts::input ? nullptr : b.dweight.data(),
          parts == Parts::input ? nullptr : b.dbias.data(), workspace.data()});
  return b;
}

const std::vector<std::pair<Index, Index>> sizes = {{1, 1},   {1, 31},  {3, 33},
                                                    {33, 16}, {70, 65}, {301, 384}};

class Norm : public testing::TestWithParam<NormKind> {};

TEST_P(Norm, ForwardMatchesTheReference) {
  for (const auto& [rows, channels] : sizes)
    for (bool with_bias : {false, true}) {
      const Problem p(GetParam(), rows, channels);
      const Reference r = reference(p, p.x, with_bias);
      const auto part = [&](auto member) {
        return [&, member](Stream& s) {
          return forward(s, p, p.x.data(), nullptr, with_bias).*member;
        };
      };
      expect_everywhere(part(&Forward::y), r.y, channels == 1 ? 1e-4 : 2e-6);
      expect_everywhere(part(&Forward::rstd), r.rstd, 1e-6);
      if (p.layer()) expect_everywhere(part(&Forward::mean), r.mean, 1e-6);
    }
}

TEST_P(Norm, FusedWithTheResidualEqualsTheTwoStepsBitForBit) {
  for (const auto& [rows, channels] : sizes) {
    const Problem p(GetParam(), rows, channels);
    for (InstructionSet set : instruction_sets()) {
      const auto device = open_cpu({2, set});
      const auto stream = device->make_stream();
      Floats s(at(p.count()));
      stream->kernels().elementwise.add(*stream, {p.count(), p.x.data(), p.delta.data(), s.data()});
      const Forward apart = forward(*stream, p, s.data(), nullptr, true);
      const Forward fused = forward(*stream, p, p.x.data(), p.delta.data(), true);
      EXPECT_TRUE(same_bits(fused.sum, s));
      EXPECT_TRUE(same_bits(fused.y, apart.y));
      EXPECT_TRUE(same_bits(fused.rstd, apart.rstd));
      EXPECT_TRUE(same_bits(fused.mean, apart.mean));
    }
  }
}

TEST_P(Norm, RowsDoNotDependOnTheCallTheyAreIn) {
  const Problem p(GetParam(), 37, 65);
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  const Forward all = forward(*stream, p, p.x.data(), nullptr, true);
  Problem last(GetParam(), 1, 65);
  const Forward one = forward(*stream, last, p.x.data() + 36 * 65, nullptr, true);
  EXPECT_TRUE(same_bits(one.y, Floats(all.y.begin() + 36 * 65, all.y.end())));
}

TEST_P(Norm, BackwardMatchesTheReference) {
  for (const auto& [rows, channels] : sizes) {
    if (channels == 1) continue;  // the gradient through a norm of one channel is rounding
    const Problem p(GetParam(), rows, channels);
    Reference r = reference(p, p.x, true);
    for (Index c = 0; c < channels; ++c) {
      r.dweight[at(c)] += static_cast<double>(p.weight[at(c)]);
      r.dbias[at(c)] += static_cast<double>(p.bias[at(c)]);
    }
    for (Write write : {Write::assign, Write::add})
      for (bool with_dsum : {false, true}) {
        Doubles dx = r.dx;
        const double times = (write == Write::add ? 1 : 0) + (with_dsum ? 1 : 0);
        for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += times * static_cast<double>(p.dsum[i]);
        expect_everywhere([&](Stream& s) { return backward(s, p, write, with_dsum).dx; }, dx, 2e-6);
      }
    expect_everywhere([&](Stream& s) { return backward(s, p, Write::assign, false).dweight; },
                      r.dweight, 2e-6);
    expect_everywhere([&](Stream& s) { return backward(s, p, Write::assign, false).dbias; },
                      r.dbias, 2e-6);
  }
}

TEST_P(Norm, InputThenParameterGradientsEqualBothAtOnce) {
  const Problem p(GetParam(), 70, 65);
  for (InstructionSet set : instruction_sets()) {
    const auto device = open_cpu({2, set});
    const auto stream = device->make_stream();
    const Backward both = backward(*stream, p, Write::assign, true);
    const Backward input = backward(*stream, p, Write::assign, true, Parts::input);
    const Backward parameters = backward(*stream, p, Write::assign, true, Parts::parameters);
    EXPECT_TRUE(same_bits(both.dx, input.dx));
    EXPECT_TRUE(same_bits(both.dweight, parameters.dweight));
    EXPECT_TRUE(same_bits(both.dbias, parameters.dbias));
    EXPECT_TRUE(same_bits(input.dweight, p.weight));
    EXPECT_TRUE(same_bits(parameters.dx, p.dsum));
  }
}

// 5000 channels: more than any block that a loop might keep.
const std::vector<std::pair<Index, Index>> sizes_of_bf16 = {{1, 1},   {1, 31},  {3, 33},
                                                            {70, 65}, {9, 384}, {2, 5000}};

enum class Residual { none, fused };  // with p.delta, in place

void run_forward(Stream& stream, Arrays& a, const Problem& p, const Floats& x, Residual residual,
                 bool with_bias) {
  NormForward f{};
  f.kind = p.kind;
  f.rows = p.rows;
  f.channels = p.channels;
  f.epsilon = static_cast<float>(epsilon);
  void* in_place = a.put(x);
  f.x = in_place;
  f.weight = a.put(p.weight);
  f.bias = with_bias ? a.put(p.bias) : nullptr;
  f.y = a.put(p.dy);
  f.mean = p.layer() ? a.put_f32(Floats(at(p.rows))) : nullptr;
  f.rstd = a.put_f32(Floats(at(p.rows)));
  if (residual == Residual::fused) {
    f.delta = a.put(p.delta);
    f.sum = in_place;
  }
  f.dtype = a.dtype;
  stream.kernels().norm.forward(stream, f);
}

TEST_P(Norm, Bf16IsRoundedOnce) {
  for (const auto& [rows, channels] : sizes_of_bf16) {
    const Problem p(GetParam(), rows, channels);
    for (bool with_bias : {false, true})
      expect_rounded_once(
          [&](Stream& s, Arrays& a) { run_forward(s, a, p, p.x, Residual::none, with_bias); });
    for (Write write : {Write::assign, Write::add})
      for (bool with_dsum : {false, true})
        expect_rounded_once([&](Stream& s, Arrays& a) {
          NormBackward b{};
          b.kind = p.kind;
          b.rows = p.rows;
          b.channels = p.channels;
          b.s = a.put(p.x);
          b.weight = a.put(p.weight);
          b.mean = p.layer() ? a.put_f32(random_values(p.rows, "mean")) : nullptr;
          b.rstd = a.put_f32(random_values(p.rows, "rstd", 0.5, 1));
          b.dy = a.put(p.dy);
          b.dx = a.put(p.dsum);
          b.dsum = with_dsum ? b.dx : nullptr;
          b.write_dx = write;
          b.dweight = a.put_f32(p.weight);
          b.dbias = a.put_f32(p.bias);
          b.dtype = a.dtype;
          std::vector<std::byte> workspace(
              at(norm_backward_workspace_bytes(s.device().traits(), p.rows, p.channels)));
          b.workspace = workspace.data();
          s.kernels().norm.backward(s, b);
        });
  }
}

TEST_P(Norm, FusedWithTheResidualEqualsTheTwoStepsInBf16) {
  const Problem p(GetParam(), 70, 65);
  Floats total = floats_of(bf16_of(p.x));
  const Floats delta = floats_of(bf16_of(p.delta));
  for (std::size_t i = 0; i < total.size(); ++i) total[i] += delta[i];
  for (InstructionSet set : instruction_sets()) {
    const auto device = open_cpu({2, set});
    const auto stream = device->make_stream();
    Arrays together(DType::bf16), apart(DType::bf16);
    run_forward(*stream, together, p, p.x, Residual::fused, true);
    run_forward(*stream, apart, p, total, Residual::none, true);
    std::vector<Floats> fused = together.rounded();
    const std::vector<Floats> steps = apart.rounded();
    fused.pop_back();  // delta
    ASSERT_EQ(fused.size(), steps.size());
    for (std::size_t i = 0; i < fused.size(); ++i)
      EXPECT_TRUE(same_bits(fused[i], steps[i])) << name(set) << ", array " << i;
  }
}

TEST_P(Norm, OtherTypesAreRefused) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  NormForward f{};
  f.kind = NormKind::rms;
  f.channels = 1;
  f.dtype = DType::f64;
  EXPECT_THROW(stream->kernels().norm.forward(*stream, f), Error);
  NormBackward b{};
  b.kind = NormKind::rms;
  b.channels = 1;
  b.dtype = DType::i32;
  EXPECT_THROW(stream->kernels().norm.backward(*stream, b), Error);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Norm, testing::Values(NormKind::layer, NormKind::rms),
                         [](const auto& kind) {
                           return kind.param == NormKind::layer ? "Layer" : "Rms";
                         });

}  // namespace
}  // namespace trireme
