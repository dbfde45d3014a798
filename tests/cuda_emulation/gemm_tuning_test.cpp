// How products choose their algorithm: what is timed, what is stored, and that no result changes.
#include <deque>

#include "trireme/kernels/gemm.h"

#include "kernels/cuda/cuda_device.h"
#include "tests/cuda_emulation/cublaslt.h"
#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/streams.h"
#include "tests/kernels/cuda/cpu_gpu_pairs.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using emulation::blas_behaviour;
using Source = GemmPreparation::Source;

/// A device with its cache, and a cuBLASLt that behaves as it did at first.
class CudaGemmTuning : public testing::Test {
 protected:
  CudaGemmTuning() { blas_behaviour() = {}; }
  ~CudaGemmTuning() override { blas_behaviour() = {}; }

  std::unique_ptr<Bench> open() {
    return std::make_unique<Bench>(std::make_unique<kernels::CudaDevice>(0, cache_.path()));
  }
  const Buffer& workspace(Bench& b) {
    workspaces_.push_back(b.stream().device().allocate(8 * sizeof(float)));
    return workspaces_.back();
  }
  std::string only_file() const {
    const auto folder = *std::filesystem::directory_iterator(cache_.path());
    return std::filesystem::directory_iterator(folder)->path();
  }

  ScratchDirectory cache_;
  std::deque<Buffer> workspaces_;
};

/// c = a b, of one shape.
Gemm product(Bench& b) {
  const void* a = b.put(random_floats(6 * 8, "a"));
  return {6,
          8,
          8,
          a,
          8,
          Transpose::no,
          b.put(random_floats(8 * 8, "b")),
          8,
          Transpose::no,
          b.put(Floats(6 * 8, 7)),
          8};
}
/// With what it accumulates on; `workspace` is borrowed. The result is f32 always.
Gemm weight_gradient(Bench& b, const Buffer& workspace, DType operands = DType::f32) {
  Gemm p{8,
         8,
         6,
         b.put(random_floats(6 * 8, "a"), operands),
         8,
         Transpose::yes,
         b.put(random_floats(6 * 8, "b"), operands),
         8,
         Transpose::no,
         b.put(Floats(8 * 8, 7)),
         8,
         Write::add};
  p.bias_gradient = b.put(Floats(8, 3));
  p.workspace = workspace.data();
  p.dtype = operands;
  return p;
}
/// The places, among what cuBLASLt recommends, of the algorithms that one run of `p` takes.
std::vector<int> algorithms_of(Bench& b, const Gemm& p) {
  blas_behaviour().launched.clear();
  b.kernels().gemm.run(b.stream(), p);
  b.stream().synchronize();
  return blas_behaviour().launched;
}

using Places = std::vector<int>;

TEST_F(CudaGemmTuning, WithoutACacheTheFirstRecommendationIsTaken) {
  Bench b(std::make_unique<kernels::CudaDevice>(0));
  const Gemm p = product(b);
  EXPECT_EQ(b.kernels().gemm.prepare(b.stream(), p).source, Source::first);
  EXPECT_EQ(blas_behaviour().launched, Places({0})) << "so that all is loaded";
  EXPECT_EQ(algorithms_of(b, p), Places({0}));
}

TEST_F(CudaGemmTuning, WhatIsPreparedAgainDoesNotRunAgain) {
  Bench b(std::make_unique<kernels::CudaDevice>(0));
  for (int i = 0; i < 2; ++i) b.kernels().gemm.prepare(b.stream(), product(b));
  EXPECT_EQ(blas_behaviour().launched, Places({0}));
}

TEST_F(CudaGemmTuning, AStoredChoiceRunsOnceToo) {
  for (const Places& launched :
       {Places({0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 1}), Places({1})}) {
    blas_behaviour().launched.clear();
    const auto b = open();
    b->kernels().gemm.prepare(b->stream(), product(*b));
    EXPECT_EQ(blas_behaviour().launched, launched);
  }
}

TEST_F(CudaGemmTuning, WhatFailsToRunFailsWhenItIsPrepared) {
  blas_behaviour().broken = {0};
  Bench b(std::make_unique<kernels::CudaDevice>(0));
  const std::string message = message_of([&] { b.kernels().gemm.prepare(b.stream(), product(b)); });
  EXPECT_NE(message.find("cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED"), std::string::npos);
}

/// What happens to the stream of `b` while `p` is prepared, without repetitions.
std::string history_of_preparing(Bench& b, const Gemm& p) {
  auto& streams = emulation::Streams::instance();
  std::vector<std::string> all;
  streams.set_schedule("lazy");  // the GPU does not run ahead of what it is given
  streams.record(static_cast<emulation::Stream*>(b.stream().native()), &all);
  b.kernels().gemm.prepare(b.stream(), p);
  streams.record(nullptr, nullptr);
  streams.set_schedule("eager");
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i == 0 || all[i] != all[i - 1]) text.append(all[i]).append(";");
  return text;
}

// Behind the sweep, so that the GPU does not wait for launches; the host waits for nothing before.
TEST_F(CudaGemmTuning, EveryTimedRunIsQueuedWholeBehindASweepOfTheCache) {
  blas_behaviour().times_us = {3, 1};
  const auto b = open();
  std::string expected;
  for (std::size_t candidate = 0; candidate < 2; ++candidate) {
    expected += "cublasLtMatmul;";
    for (int i = 0; i < 5; ++i) expected += "set;event;cublasLtMatmul;event;host waits;";
  }
  EXPECT_EQ(history_of_preparing(*b, product(*b)), expected + "cublasLtMatmul;host waits;");
}

TEST_F(CudaGemmTuning, TheMedianDecides) {
  blas_behaviour().times_us = {3, 4};
  blas_behaviour().times_of_launches_us[0] = {9, 1, 9, 1, 9, 9};  // the first one is not timed
  const auto b = open();
  const Gemm p = product(*b);
  b->kernels().gemm.prepare(b->stream(), p);
  EXPECT_EQ(algorithms_of(*b, p), Places({1}));
}

TEST_F(CudaGemmTuning, WithoutMemoryForTheSweepProductsAreTimedAllTheSame) {
  for (const Index left : {Index{2048}, Index{100} << 10}) {
    SCOPED_TRACE(left);
    const ScratchDirectory cache;
    Bench b(std::make_unique<kernels::CudaDevice>(0, cache.path()));
    const Gemm p = product(b);
    static_cast<kernels::CudaStream&>(b.stream()).gemm_workspace();
    const auto taken = static_cast<std::size_t>(b.stream().device().free_bytes() - left);
    ASSERT_TRUE(emulation::take_device_memory(taken));
    const GemmPreparation preparation = b.kernels().gemm.prepare(b.stream(), p);
    emulation::give_back_device_memory(taken);
    EXPECT_EQ(preparation.source, Source::timed);
    EXPECT_NE(preparation.note.find("caches that may be warm: less than 327680 bytes are free"),
              std::string::npos)
        << preparation.note;
    EXPECT_EQ(algorithms_of(b, p), Places({1}));
  }
}

TEST_F(CudaGemmTuning, TheFastestIsTakenAndStored) {
  {
    const auto b = open();
    const Gemm p = product(*b);
    EXPECT_EQ(algorithms_of(*b, p), Places({0})) << "not prepared yet";
    EXPECT_EQ(b->kernels().gemm.prepare(b->stream(), p).source, Source::timed);
    EXPECT_EQ(algorithms_of(*b, p), Places({1}));
  }
  blas_behaviour().times_us = {
      1, 2, 3};  // the next job must not time again, or it would choose another one
  const auto b = open();
  const Gemm p = product(*b);
  const GemmPreparation preparation = b->kernels().gemm.prepare(b->stream(), p);
  EXPECT_EQ(preparation.source, Source::stored);
  EXPECT_EQ(preparation.note, "");
  EXPECT_EQ(algorithms_of(*b, p), Places({1}));
}

TEST_F(CudaGemmTuning, PreparingWritesNothingOfTheCallers) {
  for (const bool gradient : {false, true}) {
    const auto b = open();
    const Gemm p = gradient ? weight_gradient(*b, workspace(*b)) : product(*b);
    const auto before = b->results();
    b->kernels().gemm.prepare(b->stream(), p);
    EXPECT_TRUE(b->results() == before);
  }
}

TEST_F(CudaGemmTuning, APreparedProductAsksCuBlasForNothing) {
  const auto b = open();
  for (const Gemm& p : {product(*b), weight_gradient(*b, workspace(*b))}) {
    b->kernels().gemm.prepare(b->stream(), p);
    const Index free = b->stream().device().free_bytes();
    blas_behaviour().heuristic_calls = 0;
    algorithms_of(*b, p);
    EXPECT_EQ(blas_behaviour().heuristic_calls, 0);
    EXPECT_EQ(b->stream().device().free_bytes(), free);
  }
}

// Of bf16 operands it is fp32 all the same, and the emulation has it in no other type.
TEST_F(CudaGemmTuning, ABiasGradientIsPartOfTheProductWhereThatIsFaster) {
  for (const DType operands : storage_types)
    for (const double epilogue_us : {1000.0, -0.5}) {
      blas_behaviour() = {};
      blas_behaviour().epilogue_us = epilogue_us;
      const ScratchDirectory cache;
      Bench gpu(std::make_unique<kernels::CudaDevice>(0, cache.path())), cpu(open_cpu());
      const Gemm p = weight_gradient(gpu, workspace(gpu), operands);
      gpu.kernels().gemm.prepare(gpu.stream(), p);
      blas_behaviour().epilogues.clear();
      EXPECT_EQ(algorithms_of(gpu, p), Places({1}));
      EXPECT_EQ(blas_behaviour().epilogues.front(),
                epilogue_us > 0 ? CUBLASLT_EPILOGUE_DEFAULT : CUBLASLT_EPILOGUE_BGRADB);
      Gemm expected = weight_gradient(cpu, workspace(cpu), operands);
      const Buffer widened = cpu.stream().device().allocate(
          gemm_workspace_bytes(cpu.stream().device().traits(), expected));
      expected.workspace = widened.data();
      cpu.kernels().gemm.run(cpu.stream(), expected);
      expect_close(gpu.results(), cpu.results(), 1e-6, {});
    }
}

/// After a product of bf16 or f32.
Gemm gelu_product(Bench& b, DType dtype) {
  Gemm p{6,
         8,
         8,
         b.put(random_floats(6 * 8, "a"), dtype),
         8,
         Transpose::no,
         b.put(random_floats(8 * 8, "b"), dtype),
         8,
         Transpose::no,
         b.put(Floats(6 * 8, 7), dtype),
         8};
  p.gelu_input = b.put(Floats(6 * 8, 7), dtype);
  p.epilogue = Epilogue::gelu;
  p.dtype = p.result = dtype;
  return p;
}

TEST_F(CudaGemmTuning, GeluIsPartOfProductsOfBf16Only) {
  for (const DType dtype : storage_types)
    for (const bool prepared : {false, true}) {
      blas_behaviour() = {};
      blas_behaviour().epilogue_us = -0.5;
      const ScratchDirectory cache;
      Bench b(std::make_unique<kernels::CudaDevice>(0, prepared ? cache.path() : ""));
      const Gemm p = gelu_product(b, dtype);
      b.kernels().gemm.prepare(b.stream(), p);
      blas_behaviour().epilogues.clear();
      algorithms_of(b, p);
      EXPECT_EQ(blas_behaviour().epilogues.front(),
                dtype == DType::bf16 ? CUBLASLT_EPILOGUE_GELU_AUX : CUBLASLT_EPILOGUE_DEFAULT);
    }
}

TEST(CudaGemmPeak, IsThatOfTheTypeThatIsAskedFor) {
  Bench b(std::make_unique<kernels::CudaDevice>(0));
  for (const DType dtype : storage_types) {
    blas_behaviour() = {};
    EXPECT_GT(measure_gemm_flops(b.stream(), dtype), 0);
    EXPECT_EQ(blas_behaviour().operands,
              std::set({dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F}));
  }
  blas_behaviour() = {};
}

TEST_F(CudaGemmTuning, ABiasGradientIsAPassOfItsOwnUntilItWasTimed) {
  Bench b(std::make_unique<kernels::CudaDevice>(0));
  const Gemm p = weight_gradient(b, workspace(b));
  EXPECT_EQ(algorithms_of(b, p), Places({0}));
  EXPECT_EQ(blas_behaviour().epilogues, std::vector({CUBLASLT_EPILOGUE_DEFAULT}));
}

TEST_F(CudaGemmTuning, WhatCuBlasCannotFuseRunsInSeparatePasses) {
  blas_behaviour().unknown = {CUBLASLT_EPILOGUE_BGRADB};
  const auto b = open();
  const Gemm p = weight_gradient(*b, workspace(*b));
  EXPECT_EQ(b->kernels().gemm.prepare(b->stream(), p).source, Source::timed);
  EXPECT_EQ(algorithms_of(*b, p), Places({1}));
  EXPECT_EQ(blas_behaviour().epilogues.back(), CUBLASLT_EPILOGUE_DEFAULT);
}

TEST_F(CudaGemmTuning, AnAlgorithmThatFailsIsNoCandidate) {
  blas_behaviour().broken = {1};
  const auto b = open();
  const Gemm p = product(*b);
  b->kernels().gemm.prepare(b->stream(), p);
  EXPECT_EQ(algorithms_of(*b, p), Places({2}));
}

TEST_F(CudaGemmTuning, WithoutACacheAndWithoutMemoryAProductIsNotTriedAndThatIsSaid) {
  Bench b(std::make_unique<kernels::CudaDevice>(0));
  Gemm p = product(b);
  p.m = p.n = p.ldb = p.ldc = Index{1} << 20;
  const GemmPreparation preparation = b.kernels().gemm.prepare(b.stream(), p);
  EXPECT_EQ(preparation.source, Source::first);
  EXPECT_NE(preparation.note.find("was not tried: GPU 0: "), std::string::npos) << preparation.note;
  EXPECT_EQ(blas_behaviour().launched, Places());
}

TEST_F(CudaGemmTuning, AFailureSaysWhatCuBlasSays) {
  blas_behaviour().broken = {0};
  const auto b = open();
  const std::string message = message_of([&] { b->kernels().gemm.run(b->stream(), product(*b)); });
  EXPECT_NE(message.find("cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED"), std::string::npos)
      << message;
}

TEST_F(CudaGemmTuning, ADamagedFileIsLeftAsItIsAndNotUsed) {
  {
    const auto b = open();
    b->kernels().gemm.prepare(b->stream(), product(*b));
  }
  const std::string file = only_file();
  const std::vector<std::byte> good = bytes_of_file(file);
  for (const std::size_t at : {std::size_t{0}, good.size() / 2, good.size() - 2, good.size()}) {
    std::vector<std::byte> bad = good;
    if (at == good.size())
      bad.resize(bad.size() / 2);
    else
      bad[at] ^= std::byte{1};
    write_bytes(file, bad);
    const auto b = open();
    const Gemm p = product(*b);
    const GemmPreparation preparation = b->kernels().gemm.prepare(b->stream(), p);
    EXPECT_EQ(preparation.source, Source::first);
    EXPECT_NE(preparation.note.find(file), std::string::npos) << preparation.note;
    EXPECT_EQ(algorithms_of(*b, p), Places({0})) << at;
    EXPECT_EQ(bytes_of_file(file), bad);
  }
}

TEST_F(CudaGemmTuning, AnAlgorithmThatCuBlasNoLongerTakesIsNotUsed) {
  blas_behaviour().times_us = {3, 2, 1};
  {
    const auto b = open();
    b->kernels().gemm.prepare(b->stream(), product(*b));
  }
  blas_behaviour().times_us = {3, 2};
  const auto b = open();
  const Gemm p = product(*b);
  const GemmPreparation preparation = b->kernels().gemm.prepare(b->stream(), p);
  EXPECT_EQ(preparation.source, Source::first);
  EXPECT_NE(preparation.note.find("does not take the stored algorithm"), std::string::npos);
  EXPECT_EQ(algorithms_of(*b, p), Places({0}));
}

TEST_F(CudaGemmTuning, WithoutMemoryToRehearseTheFirstChoiceIsPublished) {
  const auto prepare = [&] {
    const auto b = open();
    Gemm p = product(*b);
    p.m = p.n = p.ldb = p.ldc = Index{1}
                                << 20;  // its result is larger than the device; nothing is computed
    return b->kernels().gemm.prepare(b->stream(), p);
  };
  const GemmPreparation preparation = prepare();
  EXPECT_NE(preparation.note.find("was not tried"), std::string::npos) << preparation.note;
  EXPECT_EQ(blas_behaviour().launched, Places());
  EXPECT_EQ(prepare().source, Source::stored);
}

TEST_F(CudaGemmTuning, AChoiceThatCannotBeStoredIsAnErrorWithTheReason) {
  const std::string file = cache_.write("file", "");
  Bench b(std::make_unique<kernels::CudaDevice>(0, file));
  const std::string message = message_of([&] { b.kernels().gemm.prepare(b.stream(), product(b)); });
  EXPECT_NE(message.find(file), std::string::npos) << message;
}

// Not for a GPU: what cuBLASLt makes of floats that are not aligned as floats is its own affair,
// and a fault there ends all tests.
TEST_F(CudaGemmTuning, AProductThatCuBlasCannotDoIsNamed) {
  Bench b(std::make_unique<kernels::CudaDevice>(0));
  float* x = b.put(Floats(100));
  auto* odd = reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(x) + 2);
  try {
    b.kernels().gemm.run(b.stream(), {2, 2, 2, odd, 2, Transpose::no, x, 2, Transpose::no, x, 2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cuBLAS has no algorithm for m 2 n 2 k 2"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace trireme::test
