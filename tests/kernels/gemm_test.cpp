#include <string>

#include <dirent.h>

#include "tests/kernels/everywhere.h"

namespace trireme {
namespace {

struct Case {
  Index m, n, k;
};

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

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

void check(const Case& c, Transpose ta, Transpose tb, Write write, bool with_bias) {
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
        check(c, ta, tb, Write::assign, false);
        check(c, ta, tb, Write::assign, true);
        check(c, ta, tb, Write::add, false);
      }
}

TEST(Gemm, SharesLargeProductsOutToThreads) {
  check({512, 96, 300}, Transpose::no, Transpose::yes, Write::assign, true);
  check({96, 512, 300}, Transpose::no, Transpose::no, Write::assign, true);
  check({512, 384, 512}, Transpose::yes, Transpose::no, Write::add, false);
}

TEST(Gemm, WithoutAnInnerDimensionAssignsZerosOrTheBias) {
  check({5, 7, 0}, Transpose::no, Transpose::no, Write::assign, false);
  check({5, 7, 0}, Transpose::no, Transpose::no, Write::assign, true);
  check({5, 7, 0}, Transpose::no, Transpose::no, Write::add, false);
  check({0, 7, 3}, Transpose::no, Transpose::no, Write::assign, false);
  check({7, 0, 3}, Transpose::no, Transpose::no, Write::assign, false);
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

TEST(Gemm, StartsNoThreadsBesidesThePool) {
  const auto device = open_cpu({3});
  const auto stream = device->make_stream();
  const int before = threads_of_this_process();
  EXPECT_GT(measure_gemm_flops(*stream, 768), 0);
  EXPECT_EQ(threads_of_this_process(), before);
}

}  // namespace
}  // namespace trireme
