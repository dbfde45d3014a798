// The only file that uses oneDNN (2.x and 3.x). oneDNN is usually built with OpenMP, whose idle
// threads spin; we call it single-threaded from our own pool instead.
#include "kernels/cpu/onednn.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include <dlfcn.h>
#include <dnnl.h>

#include "trireme/core/error.h"
#include "trireme/core/thread_pool.h"
#include "trireme/kernels/gemm.h"

#include "kernels/owned.h"

namespace trireme::kernels {
namespace {

// During its lifetime, OpenMP regions that this thread starts have one thread, so no team is
// created. The setting belongs to the calling thread only and is restored. Does nothing when no
// OpenMP library is loaded (oneDNN on TBB or sequential).
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

using Engine = Owned<dnnl_engine_t, dnnl_engine_destroy>;
using Queue = Owned<dnnl_stream_t, dnnl_stream_destroy>;
using Attributes = Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using PostOps = Owned<dnnl_post_ops_t, dnnl_post_ops_destroy>;
using PrimitiveDesc = Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using Primitive = Owned<dnnl_primitive_t, dnnl_primitive_destroy>;
using Memory = Owned<dnnl_memory_t, dnnl_memory_destroy>;

dnnl_data_type_t type_of(DType dtype) { return dtype == DType::bf16 ? dnnl_bf16 : dnnl_f32; }

/// A matrix as described to oneDNN. Versions 2 and 3 differ in who owns the description.
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

/// What the code of a product depends on.
using Key = std::tuple<std::array<Index, 6>, Transpose, Transpose, Write, bool, DType, DType>;
Key key_of(const Gemm& p) {
  return {{p.m, p.n, p.k, p.lda, p.ldb, p.ldc},
          p.transpose_a,
          p.transpose_b,
          p.write,
          p.bias != nullptr,
          p.dtype,
          p.result};
}

Attributes attributes_of(const Gemm& p) {
  dnnl_primitive_attr_t created = nullptr;
  check(dnnl_primitive_attr_create(&created), "dnnl_primitive_attr_create", p);
  Attributes attributes(created);
  check(dnnl_primitive_attr_set_scratchpad_mode(created, dnnl_scratchpad_mode_user),
        "dnnl_primitive_attr_set_scratchpad_mode", p);
  if (p.write == Write::assign) return attributes;
  dnnl_post_ops_t add = nullptr;
  check(dnnl_post_ops_create(&add), "dnnl_post_ops_create", p);
  const PostOps own_add(add);
#if DNNL_VERSION_MAJOR >= 3
  check(dnnl_post_ops_append_sum(add, 1.0f, 0, dnnl_data_type_undef), "dnnl_post_ops_append_sum",
        p);
#else
  check(dnnl_post_ops_append_sum(add, 1.0f), "dnnl_post_ops_append_sum", p);
#endif
  check(dnnl_primitive_attr_set_post_ops(created, add), "dnnl_primitive_attr_set_post_ops", p);
  return attributes;
}

/// Operands and algorithm of one product.
struct Description {
  Description(dnnl_engine_t engine, const Gemm& p)
      : a(Matrix::operand(p, p.m, p.k, p.lda, p.transpose_a)),
        b(Matrix::operand(p, p.k, p.n, p.ldb, p.transpose_b)),
        bias(p, p.result, 1, p.n, p.n, 1),
        c(p, p.result, p.m, p.n, p.ldc, 1) {
    const Attributes attributes = attributes_of(p);
    const auto* const bias_or_none = p.bias == nullptr ? nullptr : bias.get();
    dnnl_primitive_desc_t created = nullptr;
#if DNNL_VERSION_MAJOR >= 3
    check(dnnl_matmul_primitive_desc_create(&created, engine, a.get(), b.get(), bias_or_none,
                                            c.get(), attributes.get()),
          "dnnl_matmul_primitive_desc_create", p);
#else
    dnnl_matmul_desc_t product;
    check(dnnl_matmul_desc_init(&product, a.get(), b.get(), bias_or_none, c.get()),
          "dnnl_matmul_desc_init", p);
    check(dnnl_primitive_desc_create(&created, &product, attributes.get(), engine, nullptr),
          "dnnl_primitive_desc_create", p);
#endif
    desc.reset(created);
  }

  const auto* scratchpad() const {
    return dnnl_primitive_desc_query_md(desc.get(), dnnl_query_scratchpad_md, 0);
  }

  Matrix a, b, bias, c;
  PrimitiveDesc desc;
};

/// A product that can run: its description and code.
struct Product {
  Product(dnnl_engine_t engine, const Gemm& p) : description(engine, p) {
    dnnl_primitive_t created = nullptr;
    check(dnnl_primitive_create(&created, description.desc.get()), "dnnl_primitive_create", p);
    primitive.reset(created);
  }

  Description description;
  Primitive primitive;
};

template <class Desc>
Memory memory_of(dnnl_engine_t engine, const Gemm& p, const Desc* desc, const void* data) {
  dnnl_memory_t created = nullptr;
  check(dnnl_memory_create(&created, desc, engine, const_cast<void*>(data)), "dnnl_memory_create",
        p);
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

struct OnednnProducts::State {
  explicit State(int threads) {
    dnnl_engine_t created = nullptr;
    require(dnnl_engine_create(&created, dnnl_cpu, 0) == dnnl_success,
            "oneDNN cannot make an engine for this CPU");
    engine.reset(created);
    for (int i = 0; i < threads; ++i) {
      dnnl_stream_t queue = nullptr;
      require(dnnl_stream_create(&queue, engine.get(), dnnl_stream_default_flags) == dnnl_success,
              "oneDNN cannot make a stream for this CPU");
      queues.emplace_back(queue);
    }
  }

  const Product& find_or_make(const Gemm& p) {
    const Key key = key_of(p);
    const std::lock_guard lock(mutex);
    const auto found = products.find(key);
    if (found != products.end()) return found->second;
    return products.try_emplace(key, engine.get(), p).first->second;
  }

  Engine engine;
  std::vector<Queue> queues;  // one a thread of the pool
  std::mutex mutex;
  std::map<Key, const Product> products;  // entries stay where they are
  std::map<Key, Index> scratchpads;       // without a bias, assigned
};

OnednnProducts::OnednnProducts(int threads) : state_(std::make_unique<State>(threads)) {}
OnednnProducts::~OnednnProducts() = default;

void OnednnProducts::prepare(const Gemm& p) {
  const OneOpenMpThread guard;
  state_->find_or_make(p);
}

Index OnednnProducts::scratchpad_bytes(const Gemm& p) {
  Gemm plain = p;
  plain.write = Write::assign;
  plain.bias = nullptr;
  const std::lock_guard lock(state_->mutex);
  const auto [entry, is_new] = state_->scratchpads.try_emplace(key_of(plain), 0);
  if (!is_new) return entry->second;
  const OneOpenMpThread guard;
  Gemm with_bias = plain, added = plain;
  with_bias.bias = &with_bias;  // that there is one counts, not where
  added.write = Write::add;
  for (const Gemm& variant : {plain, with_bias, added}) {
    const Description description(state_->engine.get(), variant);
    entry->second = std::max(
        entry->second, static_cast<Index>(dnnl_memory_desc_get_size(description.scratchpad())));
  }
  return entry->second;
}

void OnednnProducts::run(const Gemm& p, void* scratchpad) {
  const OneOpenMpThread guard;
  const Product& product = state_->find_or_make(p);
  const Description& d = product.description;
  dnnl_engine_t engine = state_->engine.get();
  dnnl_stream_t queue =
      state_->queues[static_cast<std::size_t>(ThreadPool::current_thread())].get();
  const Memory a = memory_of(engine, p, d.a.get(), p.a), b = memory_of(engine, p, d.b.get(), p.b),
               bias = memory_of(engine, p, d.bias.get(), p.bias),
               c = memory_of(engine, p, d.c.get(), p.c),
               extra = memory_of(engine, p, d.scratchpad(), scratchpad);
  const std::array<dnnl_exec_arg_t, 5> arguments = {{{DNNL_ARG_SRC, a.get()},
                                                     {DNNL_ARG_WEIGHTS, b.get()},
                                                     {DNNL_ARG_DST, c.get()},
                                                     {DNNL_ARG_SCRATCHPAD, extra.get()},
                                                     {DNNL_ARG_BIAS, bias.get()}}};
  check(dnnl_primitive_execute(product.primitive.get(), queue, p.bias == nullptr ? 4 : 5,
                               arguments.data()),
        "dnnl_primitive_execute", p);
  check(dnnl_stream_wait(queue), "dnnl_stream_wait", p);
}

namespace {

/// The widest that goes with a set. With avx512 that is AVX-512 bf16, where the machine has it, but
/// not AMX.
dnnl_cpu_isa_t widest_isa(InstructionSet set) {
  switch (set) {
    case InstructionSet::portable:
      return dnnl_cpu_isa_sse41;  // the least that oneDNN has
    case InstructionSet::avx2:
      return dnnl_cpu_isa_avx2;
    case InstructionSet::best:
    case InstructionSet::avx512:
      return dnnl_cpu_isa_avx512_core_bf16;
  }
  throw Error("no such instruction set");
}

}  // namespace

void limit_onednn(InstructionSet set) {
  if (set == InstructionSet::best) return;
  // From its first use on oneDNN refuses a limit, so what it uses counts, not what it answers. Each
  // bit is an extension.
  dnnl_set_max_cpu_isa(widest_isa(set));
  const auto allowed = static_cast<unsigned>(widest_isa(set)),
             used = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  require((used & ~allowed) == 0, "oneDNN cannot be limited to ", name(set),
          ": it was used before this limit, or is built without limits");
}

bool onednn_has_bf16() {
  const auto wanted = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & wanted) == wanted;
}

}  // namespace trireme::kernels
