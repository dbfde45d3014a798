#include "launch/preflight/device_checks.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "trireme/core/error.h"
#include "trireme/core/random.h"
#include "trireme/data/source.h"
#include "trireme/job/run.h"
#include "trireme/kernels/device.h"
#include "trireme/kernels/gemm.h"
#include "trireme/kernels/hash.h"
#include "trireme/kernels/kernels.h"
#include "trireme/models/transformer.h"
#include "trireme/train/trainer.h"

#include "runtime/core/seconds_since.h"
#include "runtime/store/checksum.h"

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

namespace {

constexpr Index word_bytes = sizeof(std::uint64_t);
constexpr Index piece_words = (Index{16} << 20) / word_bytes;  // that are written together
constexpr Index places = 4096;  // of the pattern at which a piece may begin, so that pieces differ

std::vector<std::uint64_t> pattern(std::uint64_t mask) {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
  std::vector<std::uint64_t> words(static_cast<std::size_t>(piece_words + places));
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = ((i + 1) * odd) ^ mask;
  return words;
}

/// Hashes of ranges of memory, computed where it is.
std::vector<std::uint64_t> hashes_of(Stream& stream, const std::byte* memory,
                                     std::vector<ListedRange> ranges) {
  const auto bytes = static_cast<Index>(ranges.size()) * word_bytes;
  const Buffer list = stream.device().allocate(list_bytes(ranges)),
               on_device = stream.device().allocate(bytes);
  std::vector<std::uint64_t> hashes(ranges.size());
  stream.kernels().hash.ranges(stream,
                               {.list = upload(ranges, stream, list.data()),
                                .words = reinterpret_cast<const std::uint64_t*>(memory),
                                .hashes = reinterpret_cast<std::uint64_t*>(on_device.data())});
  stream.copy(hashes.data(), on_device.data(), bytes);
  stream.synchronize();
  return hashes;
}

class Pieces {
 public:
  Pieces(Stream& stream, Index count)
      : stream_(stream),
        count_(count),
        memory_(stream.device().allocate(count * piece_words * word_bytes)),
        source_(stream.device().allocate((piece_words + places) * word_bytes)) {}

  /// Returns how many were written in time, at least one.
  Index write(std::uint64_t mask, double seconds) {
    const std::vector<std::uint64_t> words = pattern(mask);
    std::vector<std::uint64_t> back(words.size());
    const Index bytes = std::ssize(words) * word_bytes;
    stream_.copy(source_.data(), words.data(), bytes);
    stream_.copy(back.data(), source_.data(), bytes);
    stream_.synchronize();
    require(back == words, "memory of the device was read back with other bits");
    constexpr Index together = 4;
    const double began = steady_seconds();
    Index written = 0;
    while (written < count_ && (written == 0 || seconds_since(began) < seconds)) {
      for (Index i = 0; i < together && written < count_; ++i, ++written)
        stream_.copy(memory_.data() + written * piece_words * word_bytes,
                     source_.data() + place_of(written) * word_bytes, piece_words * word_bytes);
      stream_.synchronize();
    }
    return written;
  }
  void read(Index written) {
    std::vector<ListedRange> ranges, expected;
    for (Index i = 0; i < written; ++i) {
      ranges.push_back({i * piece_words, piece_words});
      expected.push_back({place_of(i), piece_words});
    }
    const std::vector<std::uint64_t> found = hashes_of(stream_, memory_.data(), ranges),
                                     right = hashes_of(stream_, source_.data(), expected);
    for (std::size_t i = 0; i < found.size(); ++i)
      require(found[i] == right[i],
              "memory of the device holds other bits than were written, "
              "from byte ",
              static_cast<Index>(i) * piece_words * word_bytes, " of what is free");
  }

 private:
  static Index place_of(Index piece) { return piece % places; }

  Stream& stream_;
  Index count_;
  Buffer memory_, source_;
};

}  // namespace

MemoryTested test_memory(Stream& stream, double seconds) {
  const Index free = stream.device().free_bytes();
  constexpr Index of_ten = 9;
  constexpr Index piece_bytes = piece_words * word_bytes;
  // Without the pattern and the lists.
  const Index count = (free / 10 * of_ten - 2 * piece_bytes) / piece_bytes;
  if (count < 1) return {0, free};
  Pieces pieces(stream, count);
  Index tested = count;
  constexpr int parts = 4;  // two patterns are written and read
  for (const std::uint64_t mask : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    const Index written = pieces.write(mask, seconds / parts);
    pieces.read(written);
    tested = std::min(tested, written);
  }
  return {tested * piece_bytes, free};
}

namespace {

/// Tokens in an order that is learned a little: the next one depends on the one before.
class InventedText final : public DataSource {
 public:
  explicit InventedText(const TransformerConfig& model) : model_(model) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    const Random random = random_for(1, "preflight text");
    const auto token = [&](Index i) {
      const auto drawn = static_cast<Index>(random.bits(sample * model_.seq_length + i / 2));
      return static_cast<std::int32_t>((drawn + i % 2) % model_.vocab_size);
    };
    for (Index i = 0; i < model_.seq_length; ++i) {
      if (out[0].data != nullptr) out[0].as<std::int32_t>()[i] = token(i);
      if (out[1].data != nullptr) out[1].as<std::int32_t>()[i] = token(i + 1);
    }
    return model_.seq_length;
  }

 private:
  const TransformerConfig& model_;
};

}  // namespace

std::string bits_of_training(Mesh& mesh, Stream& stream, const Host& host) {
  constexpr int steps = 3;
  const TransformerConfig config = preset("tiny");
  Options options;
  options.global_batch_size = 1;
  options.train_iters = options.learning_rate.decay_iters = steps;
  options.log_level = LogLevel::quiet;
  const Log log(0, LogLevel::quiet);
  Context context(options, mesh, stream, host, log);
  Model model([&](Graph& graph) {
    return build_transformer_loss(graph, config, options.micro_batch_size);
  });
  model.identity = config.identity();
  Trainer trainer(context, model);
  InventedText text(config);
  std::vector<double> results;
  for (int step = 0; step < steps; ++step) {
    const StepMetrics metrics = trainer.step(text);
    require(!metrics.skipped, "the gradients of step ", step + 1, " are not finite");
    results.insert(results.end(), {metrics.loss, metrics.grad_norm});
  }
  return to_text(checksum(results.data(), std::ssize(results) * Index{sizeof(double)}));
}

}  // namespace trireme::preflight
