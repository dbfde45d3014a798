// The only file that knows oneDNN (2.x and 3.x). oneDNN is usually built with OpenMP, whose idle threads spin; we call it
// single-threaded from our own pool instead.
#include "kernels/cpu/onednn.h"

#include <array>
#include <memory>
#include <type_traits>

#include <dlfcn.h>
#include <dnnl.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

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

void check(dnnl_status_t status, const char* what, const Gemm& p) {
  require(status == dnnl_success, what, " for m ", p.m, ", n ", p.n, ", k ", p.k, ", ", p.dtype,
          " to ", p.result, " failed with oneDNN's status ", static_cast<int>(status));
}

template <auto destroy>
struct DestroyBy {
  template <class T>
  void operator()(T* object) const {
    destroy(object);
  }
};
template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, DestroyBy<destroy>>;

using Engine = Owned<dnnl_engine_t, dnnl_engine_destroy>;
using Queue = Owned<dnnl_stream_t, dnnl_stream_destroy>;
using Attributes = Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using PostOps = Owned<dnnl_post_ops_t, dnnl_post_ops_destroy>;
using PrimitiveDesc = Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using Primitive = Owned<dnnl_primitive_t, dnnl_primitive_destroy>;
using Memory = Owned<dnnl_memory_t, dnnl_memory_destroy>;

dnnl_data_type_t type_of(DType dtype) { return dtype == DType::bf16 ? dnnl_bf16 : dnnl_f32; }

/// A matrix as oneDNN is told of it: versions 2 and 3 differ in who owns the description.
class Matrix {
 public:
  /// (rows, columns), element (i, j) at i * row_stride + j * column_stride.
  Matrix(const Gemm& p, DType dtype, Index rows, Index columns, Index row_stride,
         Index column_stride) {
    const dnnl_dims_t dims = {rows, columns}, strides = {row_stride, column_stride};
#if DNNL_VERSION_MAJOR >= 3
    dnnl_memory_desc_t created = nullptr;
    check(dnnl_memory_desc_create_with_strides(&created, 2, dims, type_of(dtype), strides),
          "describing a matrix", p);
    desc_.reset(created);
#else
    check(dnnl_memory_desc_init_by_strides(&desc_, 2, dims, type_of(dtype), strides),
          "describing a matrix", p);
#endif
  }
  static Matrix operand(const Gemm& p, Index rows, Index columns, Index leading,
                        Transpose transpose) {
    return transpose == Transpose::no ? Matrix(p, p.dtype, rows, columns, leading, 1)
                                      : Matrix(p, p.dtype, rows, columns, 1, leading);
  }
#if DNNL_VERSION_MAJOR >= 3
  const_dnnl_memory_desc_t get() const { return desc_.get(); }

 private:
  Owned<dnnl_memory_desc_t, dnnl_memory_desc_destroy> desc_;
#else
  const dnnl_memory_desc_t* get() const { return &desc_; }

 private:
  dnnl_memory_desc_t desc_;
#endif
};

struct Matrices {
  Matrix a, b, bias, c;
};

PrimitiveDesc describe(dnnl_engine_t engine, const Gemm& p, const Matrices& m) {
  dnnl_primitive_attr_t attributes = nullptr;
  check(dnnl_primitive_attr_create(&attributes), "dnnl_primitive_attr_create", p);
  const Attributes own_attributes(attributes);
  if (p.write == Write::add) {
    dnnl_post_ops_t add = nullptr;
    check(dnnl_post_ops_create(&add), "dnnl_post_ops_create", p);
    const PostOps own_add(add);
#if DNNL_VERSION_MAJOR >= 3
    check(dnnl_post_ops_append_sum(add, 1.0f, 0, dnnl_data_type_undef), "dnnl_post_ops_append_sum",
          p);
#else
    check(dnnl_post_ops_append_sum(add, 1.0f), "dnnl_post_ops_append_sum", p);
#endif
    check(dnnl_primitive_attr_set_post_ops(attributes, add), "dnnl_primitive_attr_set_post_ops", p);
  }
  const auto* bias = p.bias == nullptr ? nullptr : m.bias.get();
  dnnl_primitive_desc_t created = nullptr;
#if DNNL_VERSION_MAJOR >= 3
  check(dnnl_matmul_primitive_desc_create(&created, engine, m.a.get(), m.b.get(), bias, m.c.get(),
                                          attributes),
        "dnnl_matmul_primitive_desc_create", p);
#else
  dnnl_matmul_desc_t product;
  check(dnnl_matmul_desc_init(&product, m.a.get(), m.b.get(), bias, m.c.get()),
        "dnnl_matmul_desc_init", p);
  check(dnnl_primitive_desc_create(&created, &product, attributes, engine, nullptr),
        "dnnl_primitive_desc_create", p);
#endif
  return PrimitiveDesc(created);
}

Memory memory_of(dnnl_engine_t engine, const Gemm& p, const Matrix& matrix, const void* data) {
  dnnl_memory_t created = nullptr;
  check(dnnl_memory_create(&created, matrix.get(), engine, const_cast<void*>(data)),
        "dnnl_memory_create", p);
  return Memory(created);
}

}  // namespace

void onednn_sgemm(const Gemm& p) {
  const OneOpenMpThread guard;
  check(dnnl_sgemm(p.transpose_a == Transpose::no ? 'N' : 'T',
                   p.transpose_b == Transpose::no ? 'N' : 'T', p.m, p.n, p.k, 1.0f,
                   static_cast<const float*>(p.a), p.lda, static_cast<const float*>(p.b), p.ldb,
                   p.write == Write::assign ? 0.0f : 1.0f, static_cast<float*>(p.c), p.ldc),
        "dnnl_sgemm", p);
}

// A primitive is made for each call, on the thread that runs it: its scratchpad is that thread's. The code comes from oneDNN's
// own cache, so that takes 10 to 20 us after the first time.
void onednn_matmul(const Gemm& p) {
  const OneOpenMpThread guard;
  dnnl_engine_t engine = nullptr;
  check(dnnl_engine_create(&engine, dnnl_cpu, 0), "dnnl_engine_create", p);
  const Engine own_engine(engine);
  dnnl_stream_t queue = nullptr;
  check(dnnl_stream_create(&queue, engine, dnnl_stream_default_flags), "dnnl_stream_create", p);
  const Queue own_queue(queue);
  const Matrices matrices = {Matrix::operand(p, p.m, p.k, p.lda, p.transpose_a),
                             Matrix::operand(p, p.k, p.n, p.ldb, p.transpose_b),
                             Matrix(p, p.result, 1, p.n, p.n, 1),
                             Matrix(p, p.result, p.m, p.n, p.ldc, 1)};
  const PrimitiveDesc desc = describe(engine, p, matrices);
  dnnl_primitive_t created = nullptr;
  check(dnnl_primitive_create(&created, desc.get()), "dnnl_primitive_create", p);
  const Primitive primitive(created);
  const Memory a = memory_of(engine, p, matrices.a, p.a), b = memory_of(engine, p, matrices.b, p.b),
               bias = memory_of(engine, p, matrices.bias, p.bias),
               c = memory_of(engine, p, matrices.c, p.c);
  const std::array<dnnl_exec_arg_t, 4> arguments = {{{DNNL_ARG_SRC, a.get()},
                                                     {DNNL_ARG_WEIGHTS, b.get()},
                                                     {DNNL_ARG_DST, c.get()},
                                                     {DNNL_ARG_BIAS, bias.get()}}};
  check(dnnl_primitive_execute(primitive.get(), queue, p.bias == nullptr ? 3 : 4, arguments.data()),
        "dnnl_primitive_execute", p);
  check(dnnl_stream_wait(queue), "dnnl_stream_wait", p);
}

bool onednn_has_bf16() {
  const auto wanted = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & wanted) == wanted;
}

}  // namespace trireme
