// Invariant 4 (docs/concepts/architecture.md): nothing is allocated in the training loop, and
// resident memory is flat from step 2 to 200. Every allocation of the process is counted except
// inside oneDNN and MPI: this program's malloc replaces the C library's.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include <dlfcn.h>
#include <dnnl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/train/sinks/sinks.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/scratch_directory.h"
#include "tests/train/transformer_rank.h"

namespace {

std::atomic<bool> counting = false;
std::atomic<trireme::Index> allocations = 0, onednn_objects = 0;

/// `caller`: return address of the allocating call.
void count(const void* caller) {
  if (!counting || trireme::test::allocates_for_onednn()) return;
  Dl_info info{};
  const std::string_view file =
      dladdr(caller, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
  for (const char* other : {"libdnnl", "libmpi", "libopen-", "libpmix", "/mca_"})
    if (file.find(other) != std::string_view::npos) return;
  ++allocations;
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) { return count(__builtin_return_address(0)), __libc_malloc(bytes); }
void* calloc(std::size_t n, std::size_t bytes) {
  return count(__builtin_return_address(0)), __libc_calloc(n, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  return count(__builtin_return_address(0)), __libc_realloc(old, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return count(__builtin_return_address(0)), __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return count(__builtin_return_address(0)), __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  count(__builtin_return_address(0));
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
}

/// oneDNN's function of that name, which this program's replaces.
template <class F>
F of_onednn(F, const char* name) {
  if (counting) ++onednn_objects;
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

// What takes time to make in oneDNN, and has to be made ahead of the loop.
extern "C" {
dnnl_status_t dnnl_engine_create(dnnl_engine_t* engine, dnnl_engine_kind_t kind,
                                 std::size_t index) {
  return of_onednn(dnnl_engine_create, __func__)(engine, kind, index);
}
dnnl_status_t dnnl_stream_create(dnnl_stream_t* stream, dnnl_engine_t engine, unsigned flags) {
  return of_onednn(dnnl_stream_create, __func__)(stream, engine, flags);
}
dnnl_status_t dnnl_primitive_attr_create(dnnl_primitive_attr_t* attributes) {
  return of_onednn(dnnl_primitive_attr_create, __func__)(attributes);
}
dnnl_status_t dnnl_primitive_create(dnnl_primitive_t* primitive,
                                    const_dnnl_primitive_desc_t description) {
  return of_onednn(dnnl_primitive_create, __func__)(primitive, description);
}
}

namespace trireme {
namespace {

using namespace testing;

Index resident_bytes() {
  Index pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

Options options_of_the_loop() {
  Options options;
  options.learning_rate.decay_iters = 200;
  options.check_replicas = 2;
  return options;
}

TEST(TrainingMemory, TheHookSeesAnAllocation) {
  allocations = 0;
  counting = true;
  void* volatile memory = std::malloc(100);
  counting = false;
  std::free(memory);
  EXPECT_EQ(allocations, 1);
}

/// Steps as those of fit(): the sinks get them.
void expect_no_allocation_in_the_loop(Options options) {
  const ScratchDirectory folder;
  options.metrics = folder / "metrics.jsonl";
  TransformerRank rank(options);
  Trainer& trainer = rank.trainer();
  train::Sinks& sinks = train::sinks_of(trainer);
  train::open_metrics(rank.context(), sinks);
  sinks.begin({0, 200});
  RandomTokens data;
  for (int i = 0; i < 2; ++i) sinks.take(train::StepRecord{trainer.step(data)});
  trainer.evaluate(data, 1);
  allocations = onednn_objects = 0;
  counting = true;
  for (int i = 0; i < 5; ++i) sinks.take(train::StepRecord{trainer.step(data)});
  trainer.evaluate(data, 2);
  counting = false;
  EXPECT_EQ(allocations, 0) << "on rank " << mpi_session().rank();
  EXPECT_EQ(onednn_objects, 0) << "on rank " << mpi_session().rank();
}

TEST(TrainingMemory, NothingIsAllocatedInTheLoop) {
  expect_no_allocation_in_the_loop(options_of_the_loop());
}
TEST(TrainingMemory, NothingIsAllocatedInTheLoopInBf16) {
  Options options = options_of_the_loop();
  options.bf16 = true;
  expect_no_allocation_in_the_loop(options);
}

TEST(TrainingMemory, ResidentMemoryIsFlatFromStep2To200) {
  TransformerRank rank(options_of_the_loop());
  Trainer& trainer = rank.trainer();
  RandomTokens data;
  for (int i = 0; i < 2; ++i) trainer.step(data);
  const Index early = resident_bytes();
  for (int i = 2; i < 200; ++i) trainer.step(data);
  const Index late = resident_bytes();
  EXPECT_LE(late - early, 256 * 1024)
      << early << " to " << late << " on rank " << mpi_session().rank();
}

}  // namespace
}  // namespace trireme
