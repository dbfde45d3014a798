// Would it pay to pack weights once a step? The products of one layer of the benchmark model (width
// 384, feed-forward 1536), by oneDNN on one thread: dnnl_sgemm, the matmul primitive on plain
// operands, and on weights packed ahead as the primitive asks, with the time that packing takes.
// Milliseconds, medians; caches are emptied before each product, as the rest of a step does.
//
// usage: products_cpu [ROWS]     token rows of a micro-batch (default 2048)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <vector>

#include <dnnl.hpp>
#include <unistd.h>

#include "trireme/core/buffer.h"

namespace {

using trireme::Buffer;
using trireme::Index;
using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

/// c (m, n) = op(a) (m, k) op(b) (k, n); a transposed `a` adds to c, as gradients of weights do.
struct Shape {
  const char* name;
  Index m, n, k;
  bool transpose_a, transpose_b;
  bool weights_are_b() const { return !transpose_a; }
};

template <class F>
double median_ms(F f) {
  constexpr int repetitions = 9;
  static std::vector<char> others(64 << 20, 1);
  f();
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) {
    for (std::size_t j = 0; j < others.size(); j += 64) ++others[j];
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count());
  }
  std::nth_element(times.begin(), times.begin() + repetitions / 2, times.end());
  return times[repetitions / 2];
}

/// Memory of a description, filled with a small number.
class Operand {
 public:
  Operand(const dnnl::engine& engine, const dnnl::memory::desc& desc)
      : buffer_(trireme::allocate_host(static_cast<Index>(desc.get_size()))),
        memory_(desc, engine, buffer_.data()) {
    if (buffer_.data() != nullptr) std::memset(buffer_.data(), 0x3c, desc.get_size());
  }
  dnnl::memory& get() { return memory_; }
  float* floats() { return reinterpret_cast<float*>(buffer_.data()); }

 private:
  Buffer buffer_;
  dnnl::memory memory_;
};

struct Times {
  double product = 0, packing = 0;
};

class Bench {
 public:
  double sgemm(const Shape& s) {
    Operand a(engine_, a_of(s, Type::f32)), b(engine_, b_of(s, Type::f32)),
        c(engine_, c_of(s, Type::f32));
    return median_ms([&] {
      dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1, a.floats(),
                 s.transpose_a ? s.m : s.k, b.floats(), s.transpose_b ? s.k : s.n,
                 s.transpose_a ? 1 : 0, c.floats(), s.n);
    });
  }

  Times primitive(const Shape& s, Type type, bool packed) {
    const dnnl::memory::desc plain_b = b_of(s, type);
    const dnnl::memory::desc b_desc =
        packed ? dnnl::memory::desc({s.k, s.n}, type, Tag::any) : plain_b;
    const auto desc = describe(a_of(s, type), b_desc, c_of(s, type), s.transpose_a);
    Operand a(engine_, a_of(s, type)), plain(engine_, plain_b), b(engine_, desc.weights_desc()),
        c(engine_, desc.dst_desc()), scratchpad(engine_, desc.scratchpad_desc());
    const dnnl::matmul product(desc);
    Times times;
    if (packed) {
      dnnl::reorder pack(plain.get(), b.get());
      times.packing = median_ms([&] { pack.execute(stream_, plain.get(), b.get()); });
    }
    times.product = median_ms([&] {
      product.execute(stream_, {{DNNL_ARG_SRC, a.get()},
                                {DNNL_ARG_WEIGHTS, b.get()},
                                {DNNL_ARG_DST, c.get()},
                                {DNNL_ARG_SCRATCHPAD, scratchpad.get()}});
    });
    return times;
  }

 private:
  static dnnl::memory::desc a_of(const Shape& s, Type type) {
    return {{s.m, s.k}, type, s.transpose_a ? Tag::ba : Tag::ab};
  }
  static dnnl::memory::desc b_of(const Shape& s, Type type) {
    return {{s.k, s.n}, type, s.transpose_b ? Tag::ba : Tag::ab};
  }
  static dnnl::memory::desc c_of(const Shape& s, Type type) {
    return {{s.m, s.n}, s.transpose_a ? Type::f32 : type, Tag::ab};
  }
  dnnl::matmul::primitive_desc describe(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                        const dnnl::memory::desc& c, bool adds) const {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (adds) {
      dnnl::post_ops add;
      add.append_sum(1.0f);
      attributes.set_post_ops(add);
    }
#if DNNL_VERSION_MAJOR >= 3
    return {engine_, a, b, c, attributes};
#else
    return {dnnl::matmul::desc(a, b, c), attributes, engine_};
#endif
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};

void run(Index rows) {
  constexpr Index width = 384, ffn = 1536;
  const Shape shapes[] = {
      {"qkv forward", rows, 3 * width, width, false, true},
      {"projection forward", rows, width, width, false, true},
      {"up forward", rows, ffn, width, false, true},
      {"down forward", rows, width, ffn, false, true},
      {"qkv input gradient", rows, width, 3 * width, false, false},
      {"projection input gradient", rows, width, width, false, false},
      {"up input gradient", rows, width, ffn, false, false},
      {"down input gradient", rows, ffn, width, false, false},
      {"qkv weight gradient", 3 * width, width, rows, true, false},
      {"projection weight gradient", width, width, rows, true, false},
      {"up weight gradient", ffn, width, rows, true, false},
      {"down weight gradient", width, ffn, rows, true, false},
  };
  Bench bench;
  double sums[7] = {};
  std::printf("# %lld rows, oneDNN %d.%d, ms\n", static_cast<long long>(rows), DNNL_VERSION_MAJOR,
              DNNL_VERSION_MINOR);
  std::printf("%-28s %7s | fp32 %7s %7s %7s | bf16 %7s %7s %7s\n", "", "sgemm", "plain", "packed",
              "packing", "plain", "packed", "packing");
  const auto print = [](const char* name, const double* x) {
    std::printf("%-28s %7.2f |      %7.2f %7.2f %7.2f |      %7.2f %7.2f %7.2f\n", name, x[0], x[1],
                x[2], x[3], x[4], x[5], x[6]);
  };
  for (const Shape& s : shapes) {
    double x[7] = {bench.sgemm(s)};
    int next = 1;
    for (const Type type : {Type::f32, Type::bf16}) {
      const Times plain = bench.primitive(s, type, false);
      // The right operand of a weight gradient is no weight.
      const Times packed = s.weights_are_b() ? bench.primitive(s, type, true) : plain;
      for (const double t : {plain.product, packed.product, packed.packing}) x[next++] = t;
    }
    print(s.name, x);
    for (int i = 0; i < 7; ++i) sums[i] += x[i];
  }
  print("all", sums);
}

}  // namespace

int main(int argc, char** argv) {
  const long rows = argc > 1 ? std::atol(argv[1]) : 2048;
  if (rows < 1) {
    std::fprintf(stderr, "products_cpu: %s: at least 1 row\n", argv[1]);
    return 64;
  }
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {  // read before main
    setenv("OMP_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", argv);
    std::perror("products_cpu: cannot start again with OMP_NUM_THREADS=1");
    return 1;
  }
  run(rows);
}
