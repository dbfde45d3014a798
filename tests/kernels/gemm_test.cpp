// Matrix products on CPUs against references in fp64: shapes, types, epilogues, workspaces and
// threads.
#include "trireme/kernels/gemm.h"

#include <cmath>
#include <cstring>
#include <set>
#include <string>

#include <dirent.h>

#include "trireme/kernels/activation.h"
#include "trireme/kernels/elementwise.h"
#include "trireme/kernels/stream_bytes.h"

#include "kernels/cpu/onednn.h"
#include "runtime/core/at.h"
#include "tests/kernels/all_instruction_sets.h"

namespace trireme {
namespace {

struct Case {
  Index m, n, k;
};

Doubles reference(const Case& c, const Floats& a, Transpose ta, const Floats& b, Transpose tb,
                  Index pad) {
  const Index lda = (ta == Transpose::no ? c.k : c.m) + pad,
              ldb = (tb == Transpose::no ? c.n : c.k) + pad;
  Doubles y(at(c.m * c.n));
  for (Index i = 0; i < c.m; ++i)
    for (Index j = 0; j < c.n; ++j)
      for (Index l = 0; l < c.k; ++l)
        y[at(i * c.n + j)] +=
            static_cast<double>(a[at(ta == Transpose::no ? i * lda + l : l * lda + i)]) *
            static_cast<double>(b[at(tb == Transpose::no ? l * ldb + j : j * ldb + l)]);
  return y;
}

void check_gemm(const Case& c, Transpose ta, Transpose tb, Write write, bool with_bias) {
  SCOPED_TRACE(str("m ", c.m, " n ", c.n, " k ", c.k, " transposed ", ta == Transpose::yes,
                   tb == Transpose::yes, " add ", write == Write::add, " bias ", with_bias));
  const Index pad = 3;
  const Index lda = (ta == Transpose::no ? c.k : c.m) + pad,
              ldb = (tb == Transpose::no ? c.n : c.k) + pad;
  const Floats a = random_values((ta == Transpose::no ? c.m : c.k) * lda + 1, "a");
  const Floats b = random_values((tb == Transpose::no ? c.k : c.n) * ldb + 1, "b");
  const Floats before = random_values(c.m * (c.n + pad), "c"), bias = random_values(c.n, "bias");
  Doubles expected = reference(c, a, ta, b, tb, pad);
  for (Index i = 0; i < c.m; ++i)
    for (Index j = 0; j < c.n; ++j) {
      if (write == Write::add)
        expected[at(i * c.n + j)] += static_cast<double>(before[at(i * (c.n + pad) + j)]);
      if (with_bias) expected[at(i * c.n + j)] += static_cast<double>(bias[at(j)]);
    }
  const auto run = [&](Stream& s) {
    Floats y = before;
    s.kernels().gemm.run(s, {c.m, c.n, c.k, a.data(), lda, ta, b.data(), ldb, tb, y.data(),
                             c.n + pad, write, with_bias ? bias.data() : nullptr});
    Floats packed;
    for (Index i = 0; i < c.m; ++i)
      for (Index j = 0; j < c.n + pad; ++j) {
        const float v = y[at(i * (c.n + pad) + j)];
        if (j < c.n)
          packed.push_back(v);
        else
          EXPECT_EQ(v, before[at(i * (c.n + pad) + j)]) << "wrote past the row";
      }
    return packed;
  };
  const double scale = std::sqrt(static_cast<double>(c.k));  // sums of k terms may cancel
  expect_everywhere(run, expected, 1e-6, scale, {1});
  expect_everywhere(run, expected, 1e-6, scale, {2, 3, 4});
}

TEST(Gemm, MatchesTheReferenceForOddSizesAndAllTransposes) {
  for (const Case& c : {Case{1, 1, 1}, Case{1, 33, 31}, Case{33, 1, 31}, Case{31, 33, 1},
                        Case{1, 1, 129}, Case{33, 31, 65}, Case{128, 96, 64}, Case{257, 65, 33}})
    for (Transpose ta : {Transpose::no, Transpose::yes})
      for (Transpose tb : {Transpose::no, Transpose::yes}) {
        check_gemm(c, ta, tb, Write::assign, false);
        check_gemm(c, ta, tb, Write::assign, true);
        check_gemm(c, ta, tb, Write::add, false);
      }
}

TEST(Gemm, SharesLargeProductsOutToThreads) {
  check_gemm({512, 96, 300}, Transpose::no, Transpose::yes, Write::assign, true);
  check_gemm({96, 512, 300}, Transpose::no, Transpose::no, Write::assign, true);
  check_gemm({512, 384, 512}, Transpose::yes, Transpose::no, Write::add, false);
}

TEST(Gemm, WithoutAnInnerDimensionAssignsZerosOrTheBias) {
  check_gemm({5, 7, 0}, Transpose::no, Transpose::no, Write::assign, false);
  check_gemm({5, 7, 0}, Transpose::no, Transpose::no, Write::assign, true);
  check_gemm({5, 7, 0}, Transpose::no, Transpose::no, Write::add, false);
  check_gemm({0, 7, 3}, Transpose::no, Transpose::no, Write::assign, false);
  check_gemm({7, 0, 3}, Transpose::no, Transpose::no, Write::assign, false);
}

/// A product of bf16 operands, packed but for `pad` elements after every row.
struct Bf16Case {
  Case size;
  Transpose ta, tb;
  Write write;
  DType result;
  bool with_bias;
  Index pad = 3;

  Index rows_a() const { return ta == Transpose::no ? size.m : size.k; }
  Index rows_b() const { return tb == Transpose::no ? size.k : size.n; }
  Index lda() const { return (ta == Transpose::no ? size.k : size.m) + pad; }
  Index ldb() const { return (tb == Transpose::no ? size.n : size.k) + pad; }
  Index ldc() const { return size.n + pad; }
  std::vector<Bf16> a() const { return bf16_of(random_values(rows_a() * lda(), "a")); }
  std::vector<Bf16> b() const { return bf16_of(random_values(rows_b() * ldb(), "b")); }
  std::vector<Bf16> c() const { return bf16_of(random_values(size.m * ldc(), "c")); }
  std::vector<Bf16> bias() const { return bf16_of(random_values(size.n, "bias")); }

  Gemm gemm(const void* a, const void* b, void* c, const void* bias) const {
    Gemm p{size.m, size.n, size.k, a, lda(), ta, b, ldb(), tb, c, ldc(), write};
    if (with_bias) p.bias = bias;
    p.dtype = DType::bf16;
    p.result = result;
    return p;
  }
};

/// c after the product, as floats.
Floats run_bf16(Stream& s, const Bf16Case& c) {
  const std::vector<Bf16> a = c.a(), b = c.b(), bias = c.bias();
  std::vector<Bf16> y = c.c();
  Floats y_f32 = floats_of(y), bias_f32 = floats_of(bias);
  const bool f32 = c.result == DType::f32;
  Gemm p = f32 ? c.gemm(a.data(), b.data(), y_f32.data(), bias_f32.data())
               : c.gemm(a.data(), b.data(), y.data(), bias.data());
  const Buffer workspace = s.device().allocate(gemm_workspace_bytes(s.device().traits(), p));
  p.workspace = workspace.data();
  s.kernels().gemm.run(s, p);
  return f32 ? y_f32 : floats_of(y);
}

/// The same with fp32 operands of the same values, rounded at the end where the result is bf16.
Floats run_in_fp32(Stream& s, const Bf16Case& c) {
  const Floats a = floats_of(c.a()), b = floats_of(c.b()), bias = floats_of(c.bias());
  Floats y = floats_of(c.c());
  Gemm p = c.gemm(a.data(), b.data(), y.data(), bias.data());
  p.dtype = p.result = DType::f32;
  s.kernels().gemm.run(s, p);
  return c.result == DType::bf16 ? floats_of(bf16_of(y)) : y;
}

template <class F>
void for_each_bf16_case(F&& f) {
  for (const Case& size : {Case{1, 1, 1}, Case{33, 31, 65}, Case{5, 300, 7}, Case{300, 40, 0}})
    for (const Transpose ta : {Transpose::no, Transpose::yes})
      for (const Transpose tb : {Transpose::no, Transpose::yes}) {
        f(Bf16Case{size, ta, tb, Write::assign, DType::bf16, false});
        f(Bf16Case{size, ta, tb, Write::assign, DType::bf16, true});
        f(Bf16Case{size, ta, tb, Write::assign, DType::f32, true});
        f(Bf16Case{size, ta, tb, Write::add, DType::f32, false});
        if (size.k > 0) f(Bf16Case{size, ta, tb, Write::add, DType::bf16, false});
      }
}

TEST(Gemm, Bf16EqualsTheFp32ProductOfTheSameValuesRoundedOnce) {
  for_each_bf16_case([](const Bf16Case& c) {
    SCOPED_TRACE(str("m ", c.size.m, " n ", c.size.n, " k ", c.size.k, " to ", c.result, " bias ",
                     c.with_bias, " add ", c.write == Write::add));
    for (const InstructionSet set : instruction_sets())
      for (const int threads : {1, 3}) {
        const auto device = open_cpu({threads, set});
        const auto stream = device->make_stream();
        const Floats got = run_bf16(*stream, c), expected = run_in_fp32(*stream, c);
        const double unit = c.result == DType::bf16 ? std::ldexp(1, -8) : 1e-6;
        if (!device->traits().native_bf16)
          EXPECT_TRUE(same_bits(got, expected));
        else
          expect_near(got, to_double(expected), unit, name(set), std::sqrt(c.size.k));
      }
  });
}

// The path that bf16 takes on AVX-512: with fp32 operands it runs everywhere.
TEST(Gemm, TheMatmulPrimitiveMultipliesAsSgemmDoes) {
  for_each_bf16_case([](const Bf16Case& c) {
    if (c.size.k == 0 || c.result == DType::bf16) return;
    const Floats a = floats_of(c.a()), b = floats_of(c.b()), bias = floats_of(c.bias());
    Floats got = floats_of(c.c());
    Gemm p = c.gemm(a.data(), b.data(), got.data(), bias.data());
    p.dtype = DType::f32;
    const auto device = open_cpu();
    kernels::OnednnProducts products(1);
    const Buffer scratchpad = device->allocate(products.scratchpad_bytes(p));
    products.run(p, scratchpad.data());
    const auto stream = device->make_stream();
    expect_near(got, to_double(run_in_fp32(*stream, c)), 1e-6, "matmul", std::sqrt(c.size.k));
  });
}

// Bit for bit on CPUs, where what follows a product is a pass of its own.
TEST(Gemm, GeluAndItsGradientEqualTheProductAndTheActivation) {
  for_each_bf16_case([](Bf16Case c) {
    if (c.write == Write::add) return;
    c.pad = 0;
    SCOPED_TRACE(str("m ", c.size.m, " n ", c.size.n, " k ", c.size.k, " to ", c.result));
    for (const int threads : {1, 3}) {
      const auto device = open_cpu({threads});
      const auto stream = device->make_stream();
      const Kernels& kernels = stream->kernels();
      const Index bytes = c.size.m * c.size.n * size_bytes(c.result);
      const auto memory = [&](Index size) { return device->allocate(size); };
      const std::vector<Bf16> a = c.a(), b = c.b(), bias = c.bias();
      const Floats bias_f32 = floats_of(bias);
      const Buffer x = memory(bytes), y = memory(bytes), expected = memory(bytes);
      Gemm p =
          c.gemm(a.data(), b.data(), x.data(),
                 c.result == DType::f32 ? static_cast<const void*>(bias_f32.data()) : bias.data());
      const Buffer workspace = memory(gemm_workspace_bytes(device->traits(), p));
      p.workspace = workspace.data();
      const auto same = [&](const Buffer& one, const Buffer& other) {
        return bytes == 0 ||
               std::memcmp(one.data(), other.data(), static_cast<std::size_t>(bytes)) == 0;
      };

      kernels.gemm.run(*stream, p);  // x
      kernels.activation.forward(*stream, {Activation::gelu_tanh, c.size.m * c.size.n, x.data(),
                                           expected.data(), c.result});
      const Buffer kept = memory(bytes);
      Gemm gelu = p;
      gelu.epilogue = Epilogue::gelu;
      gelu.gelu_input = kept.data();
      gelu.c = y.data();
      kernels.gemm.run(*stream, gelu);
      EXPECT_TRUE(same(kept, x));
      EXPECT_TRUE(same(y, expected));

      if (c.with_bias) continue;
      kernels.activation.backward(*stream, {Activation::gelu_tanh, c.size.m * c.size.n, kept.data(),
                                            x.data(), expected.data(), Write::assign, c.result});
      gelu.epilogue = Epilogue::gelu_gradient;
      kernels.gemm.run(*stream, gelu);
      EXPECT_TRUE(same(y, expected));
    }
  });
}

TEST(Gemm, TheBiasGradientEqualsThatOfItsOwnKernel) {
  const auto device = open_cpu({2});
  const auto stream = device->make_stream();
  for (const Write write : {Write::assign, Write::add}) {
    const Index rows = 37, out = 150, in = 20;
    const Floats dy = random_values(rows * out, "dy"), x = random_values(rows * in, "x");
    Floats dw(at(out * in)), got = random_values(out, "dbias"), expected = got;
    Gemm p{out,      in, rows,          dy.data(), out, Transpose::yes,
           x.data(), in, Transpose::no, dw.data(), in};
    p.bias_gradient = got.data();
    p.write_bias_gradient = write;
    stream->kernels().gemm.run(*stream, p);
    if (write == Write::assign) expected.assign(at(out), 0);
    stream->kernels().elementwise.bias_backward(*stream, {rows, out, dy.data(), expected.data()});
    EXPECT_TRUE(same_bits(got, expected));
  }
}

TEST(Gemm, RejectsTypesThatDoNotGoTogether) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  Floats x(16);
  Gemm p{2, 2, 2, x.data(), 2, Transpose::no, x.data(), 2, Transpose::no, x.data(), 2};
  p.result = DType::bf16;
  EXPECT_THROW(stream->kernels().gemm.run(*stream, p), Error);
  p.dtype = p.result = DType::f64;
  EXPECT_THROW(stream->kernels().gemm.run(*stream, p), Error);
}

TEST(Gemm, SaysHowMuchWorkspaceIsMissing) {
  const auto device = open_cpu({1, InstructionSet::portable});
  const auto stream = device->make_stream();
  std::vector<Bf16> x(16);
  Gemm p{2, 2, 2, x.data(), 2, Transpose::no, x.data(), 2, Transpose::no, x.data(), 2};
  p.dtype = p.result = DType::bf16;
  try {
    stream->kernels().gemm.run(*stream, p);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("needs 768 bytes of workspace"), std::string::npos)
        << error.what();
  }
}

TEST(Gemm, RejectsLeadingDimensionsThatAreTooSmall) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  Floats x(100);
  EXPECT_THROW(stream->kernels().gemm.run(*stream, {4, 4, 5, x.data(), 4, Transpose::no, x.data(),
                                                    4, Transpose::no, x.data(), 4}),
               Error);
}

int threads_of_this_process() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/task");
  while (const dirent* entry = ::readdir(folder)) count += entry->d_name[0] != '.';
  ::closedir(folder);
  return count;
}

TEST(Gemm, HasAPeakInEveryType) {
  for (const InstructionSet set : {InstructionSet::portable, InstructionSet::best}) {
    const auto device = open_cpu({1, set});
    for (const DType dtype : {DType::f32, DType::bf16})
      EXPECT_GT(measure_gemm_flops(*device->make_stream(), dtype), 0);
  }
}

TEST(Gemm, IsTimedOnModerateNumbersOfEitherType) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  constexpr Index bytes = (Index{5} << 20) / 2 + 6;  // some of them twice, and a third time in part
  const Buffer filled = device->allocate(bytes);
  fill_for_timing(*stream, filled.data(), bytes);
  stream->synchronize();
  const auto expect_moderate = [](float value) {
    ASSERT_GE(std::abs(value), 0.5f);
    ASSERT_LT(std::abs(value), 2.0f);
  };
  const auto* halves = reinterpret_cast<const Bf16*>(filled.data());
  std::set<float> different;
  for (Index i = 0; i < bytes / 2; ++i) {
    expect_moderate(to_float(halves[i]));
    different.insert(to_float(halves[i]));
  }
  EXPECT_EQ(different.size(), 512u);
  for (Index i = 0; i < bytes / 4; ++i) {
    float value = 0;
    std::memcpy(&value, filled.data() + 4 * i, 4);
    expect_moderate(value);
  }
}

TEST(Gemm, StartsNoThreadsBesidesThePool) {
  const auto device = open_cpu({3});
  const auto stream = device->make_stream();
  const int before = threads_of_this_process();
  EXPECT_GT(measure_gemm_flops(*stream), 0);
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST(Gemm, KnowsTheMemoryOfItsStream) {
  EXPECT_EQ(gemm_stream_bytes(gpu_traits("H100-SXM")), Index{34} << 20);
  EXPECT_EQ(gemm_stream_bytes(cpu_traits()), 0);
}

TEST(Gemm, SaysWhichCpuThisMachineCannotPlanFor) {
  DeviceTraits other;
  other.native_bf16 = !cpu_traits().native_bf16;
  Gemm product{};
  product.m = product.n = product.k = product.lda = product.ldb = product.ldc = 64;
  product.dtype = product.result = DType::bf16;
  std::string said;
  try {
    EXPECT_EQ(gemm_workspace_bytes(other, product), 3 * 64 * 64 * 4) << "all in f32";
  } catch (const Error& error) {
    said = error.what();
  }
  EXPECT_EQ(said.find("plan on a machine that has them") != std::string::npos, other.native_bf16);
}

}  // namespace
}  // namespace trireme
