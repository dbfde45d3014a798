// Matrix products by oneDNN's dnnl_sgemm: the only file that knows oneDNN (2.x and 3.x). oneDNN is
// usually built with OpenMP, whose idle threads spin; we call it single-threaded from our own pool
// instead.
#include <cstring>

#include <dlfcn.h>
#include <dnnl.h>

#include "trireme/core/error.h"

#include "kernels/cpu/cpu_device.h"
#include "kernels/shape_checks.h"

namespace trireme {

namespace {

constexpr Index least_panel =
    128;  // rows or columns: below this, packing the other operand again costs too much
constexpr Index most_panels = 8;

// While one lives, OpenMP regions that this thread starts have one thread, so no team is made. The
// setting belongs to the calling thread alone and is put back. Does nothing when no OpenMP library
// is loaded (oneDNN on TBB or sequential).
class OneOpenMpThread {
 public:
  OneOpenMpThread() : before_(get() == nullptr ? 1 : get()()) {
    if (before_ != 1) set()(1);
  }
  ~OneOpenMpThread() {
    if (before_ != 1) set()(before_);
  }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  using Get = int (*)();
  using Set = void (*)(int);
  static Get get() {
    static const Get f = reinterpret_cast<Get>(::dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    return f;
  }
  static Set set() {
    static const Set f = reinterpret_cast<Set>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    return f;
  }
  int before_;
};

const float* element(const float* x, Index ld, Transpose transpose, Index row, Index column) {
  return transpose == Transpose::no ? x + row * ld + column : x + column * ld + row;
}

// Rows [row, row + m) and columns [column, column + n) of c.
void part(const Gemm& p, Index row, Index column, Index m, Index n) {
  const OneOpenMpThread guard;
  const dnnl_status_t status = dnnl_sgemm(
      p.transpose_a == Transpose::no ? 'N' : 'T', p.transpose_b == Transpose::no ? 'N' : 'T', m, n,
      p.k, 1.0f, element(p.a, p.lda, p.transpose_a, row, 0), p.lda,
      element(p.b, p.ldb, p.transpose_b, 0, column), p.ldb, p.write == Write::assign ? 0.0f : 1.0f,
      p.c + row * p.ldc + column, p.ldc);
  require(status == dnnl_success, "dnnl_sgemm of m ", m, ", n ", n, ", k ", p.k,
          " failed with status ", static_cast<int>(status));
}

// c becomes zeros (assign) where there is nothing to multiply: oneDNN refuses k = 0.
void clear(const Gemm& p) {
  if (p.write == Write::add) return;
  for (Index row = 0; row < p.m; ++row)
    std::memset(p.c + row * p.ldc, 0, static_cast<std::size_t>(p.n) * sizeof(float));
}

// Columns [begin, end) of some rows.
void add_bias(const Loops& loops, const Gemm& p, Index row, Index rows, Index begin, Index end) {
  for (Index r = row; r < row + rows && p.bias != nullptr; ++r)
    loops.elementwise.add(p.c + r * p.ldc, p.bias, p.c + r * p.ldc, begin, end);
}

// oneDNN's order of summation depends on the sizes it is given (its blocks, and a path without packing for small ones).
// So several threads share out panels that depend on the shape only, and any number of them gives the same bits; one
// thread does it in one call, which is 5 to 25 % faster than panels, and may differ from them in the last bits.
void run(Stream& stream, const Gemm& p) {
  check_gemm(p);
  if (p.m == 0 || p.n == 0) return;
  const Loops& loops = loops_of(stream);
  if (p.k == 0) {
    clear(p);
    return add_bias(loops, p, 0, p.m, 0, p.n);
  }
  const bool by_rows = p.m >= p.n;
  const Index cut = by_rows ? p.m : p.n;
  const Index panels =
      stream.pool().threads() == 1 ? 1 : std::clamp<Index>(cut / least_panel, 1, most_panels);
  parallel_for(stream, panels, 1, [&](Index first, Index last) {
    for (Index panel = first; panel < last; ++panel) {
      const Index begin = cut * panel / panels, size = cut * (panel + 1) / panels - begin;
      const Index row = by_rows ? begin : 0, rows = by_rows ? size : p.m;
      const Index column = by_rows ? 0 : begin, columns = by_rows ? p.n : size;
      part(p, row, column, rows, columns);
      add_bias(loops, p, row, rows, column, column + columns);
    }
  });
}

}  // namespace

const GemmKernels cpu_gemm_kernels = {run};

}  // namespace trireme
