#include "launch/preflight/steady_products.h"

#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "trireme/core/error.h"
#include "trireme/kernels/device.h"
#include "trireme/kernels/gemm.h"
#include "trireme/kernels/hash.h"
#include "trireme/kernels/kernels.h"

#include "runtime/core/seconds_since.h"

namespace trireme::preflight {
namespace {

constexpr Index hash_bytes = sizeof(std::uint64_t);

class Product {
 public:
  Product(Stream& stream, Index size, DType dtype)
      : stream_(stream), gemm_(shape(size, dtype)), bytes_(size * size * size_bytes(dtype)) {
    fill_for_timing(stream_, a_.data(), bytes_);
    fill_for_timing(stream_, b_.data(), bytes_);
    gemm_.a = a_.data();
    gemm_.b = b_.data();
    gemm_.c = c_.data();
    gemm_.workspace = workspace_.data();
    std::vector<ListedRange> all = {{0, bytes_ / hash_bytes}};
    result_ = upload(all, stream_, list_.data());
  }
  void run() { stream_.kernels().gemm.run(stream_, gemm_); }
  /// Of the result. Waits for the stream.
  std::uint64_t hash() {
    stream_.kernels().hash.ranges(stream_,
                                  {.list = result_,
                                   .words = reinterpret_cast<const std::uint64_t*>(c_.data()),
                                   .hashes = reinterpret_cast<std::uint64_t*>(hash_.data())});
    std::uint64_t hash = 0;
    stream_.copy(&hash, hash_.data(), hash_bytes);
    stream_.synchronize();
    return hash;
  }

  static Gemm shape(Index size, DType dtype) {
    Gemm gemm{};
    gemm.m = gemm.n = gemm.k = gemm.lda = gemm.ldb = gemm.ldc = size;
    gemm.dtype = gemm.result = dtype;
    return gemm;
  }
  static Index all_bytes(const Device& device, Index size, DType dtype) {
    return 3 * size * size * size_bytes(dtype) +
           gemm_workspace_bytes(device.traits(), shape(size, dtype));
  }

 private:
  static constexpr Index list_bytes = 64;  // of one range

  Stream& stream_;
  Gemm gemm_;
  Index bytes_;
  Buffer a_ = stream_.device().allocate(bytes_), b_ = stream_.device().allocate(bytes_),
         c_ = stream_.device().allocate(bytes_),
         workspace_ =
             stream_.device().allocate(gemm_workspace_bytes(stream_.device().traits(), gemm_)),
         list_ = stream_.device().allocate(list_bytes), hash_ = stream_.device().allocate(64);
  DeviceList<ListedRange> result_;
};

}  // namespace

SteadyProducts repeat_products(const std::function<std::uint64_t()>& product, Index size,
                               DType dtype, double seconds) {
  const std::uint64_t first = product();
  Index count = 0;
  const double began = steady_seconds();
  do {
    require(product() == first, "a product of the same ", name(dtype),
            " matrices has other bits after ", static_cast<Index>(seconds_since(began)), " s");
    ++count;
  } while (seconds_since(began) < seconds);
  const auto n = static_cast<double>(size);
  return {fmt::format("{}: {:016x}", size, first),
          2 * n * n * n * static_cast<double>(count) / seconds_since(began) / 1e9};
}

SteadyProducts run_products(Stream& stream, Index size, DType dtype, double seconds) {
  Product product(stream, size, dtype);
  const auto run = [&] {
    product.run();
    return product.hash();
  };
  return repeat_products(run, size, dtype, seconds);
}

Index lasting_product(Stream& stream, DType dtype) {
  constexpr Index least = 256, most = 8192;
  constexpr double long_s = 5e-3;
  for (Index size = least;; size *= 2) {
    const Index next_bytes = Product::all_bytes(stream.device(), 2 * size, dtype);
    if (size == most || next_bytes > stream.device().free_bytes() / 2) return size;
    Product product(stream, size, dtype);
    product.run();
    product.hash();  // the first one takes longer
    const double began = steady_seconds();
    product.run();
    stream.synchronize();
    if (seconds_since(began) >= long_s) return size;
  }
}

}  // namespace trireme::preflight
