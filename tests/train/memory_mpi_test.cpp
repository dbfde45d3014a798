// Design invariant 4: nothing is allocated in the training loop, and resident memory is flat from step 2 to 200. Every
// allocation of the process is counted, whoever makes it, except inside oneDNN and MPI: this program's malloc stands in
// front of the C library's.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "trireme/kernels/device.h"
#include "trireme/models/transformer.h"
#include "trireme/train/trainer.h"

#include "tests/support/mpi_ranks.h"

namespace {

std::atomic<bool> counting = false;
std::atomic<trireme::Index> allocations = 0;

/// `caller`: return address of the allocating call.
void count(const void* caller) {
  if (!counting) return;
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

namespace trireme {
namespace {

Index resident_bytes() {
  Index pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// Tokens that are a function of the sample.
class Tokens final : public DataSource {
 public:
  Index fill(Index sample, std::span<const Tensor> out) override {
    const Random random = random_for(5, "tokens", static_cast<std::uint64_t>(sample));
    constexpr Index length = 16;
    for (std::size_t k = 0; k < out.size(); ++k)
      for (Index i = 0; i < length && out[k].data != nullptr; ++i)
        out[k].as<std::int32_t>()[i] =
            static_cast<std::int32_t>(random.bits(i + static_cast<Index>(k)) % 64);
    return length;
  }
};

/// As many axes as these ranks allow.
MeshShape mesh_of(int ranks) {
  if (ranks % 4 == 0) return MeshShape(ranks / 4, 2, 2);
  return ranks == 2 ? MeshShape(1, 2, 1) : MeshShape(ranks, 1, 1);
}

/// f(trainer, context) on every rank, with dropout, ZeRO-1 and sequence parallelism in the model.
template <class F>
void with_trainer(F&& f) {
  const MeshShape shape = mesh_of(mpi_session().size());
  Options options;
  options.tensor_size = shape.size(Axis::tensor);
  options.pipeline_size = shape.size(Axis::pipeline);
  options.use_distributed_optimizer = true;
  options.global_batch_size = 12;
  options.learning_rate.decay_iters = 200;
  options.bucket_size = 2000;
  TransformerConfig config = preset("tiny");
  config.hidden_size = 32;
  config.num_attention_heads = 4;
  config.seq_length = 16;
  config.max_position_embeddings = 16;
  config.vocab_size = 64;
  config.hidden_dropout = 0.1f;
  config.sequence_parallel = options.tensor_size > 1 ? SequenceParallel::on : SequenceParallel::off;

  const std::unique_ptr<Device> device = open_cpu();
  const std::unique_ptr<Stream> stream = device->make_stream();
  const std::unique_ptr<Mesh> mesh = mpi_session().make_mesh(shape);
  const Log log(mesh->rank(), LogLevel::quiet);
  Context context(options, *mesh, *stream, log);
  Trainer trainer(context, Model([&](Graph& g) { return build_transformer_loss(g, config, 1); }));
  f(trainer);
}

TEST(TrainingMemory, TheHookSeesAnAllocation) {
  allocations = 0;
  counting = true;
  void* volatile memory = std::malloc(100);
  counting = false;
  std::free(memory);
  EXPECT_EQ(allocations, 1);
}

TEST(TrainingMemory, NothingIsAllocatedInTheLoop) {
  with_trainer([](Trainer& trainer) {
    Tokens data;
    for (int i = 0; i < 2; ++i) trainer.step(data);
    trainer.evaluate(data, 1);
    allocations = 0;
    counting = true;
    for (int i = 0; i < 5; ++i) trainer.step(data);
    trainer.evaluate(data, 2);
    counting = false;
    EXPECT_EQ(allocations, 0) << "on rank " << mpi_session().rank();
  });
}

TEST(TrainingMemory, ResidentMemoryIsFlatFromStep2To200) {
  with_trainer([](Trainer& trainer) {
    Tokens data;
    for (int i = 0; i < 2; ++i) trainer.step(data);
    const Index early = resident_bytes();
    for (int i = 2; i < 200; ++i) trainer.step(data);
    const Index late = resident_bytes();
    EXPECT_LE(late - early, 256 * 1024)
        << early << " to " << late << " on rank " << mpi_session().rank();
  });
}

}  // namespace
}  // namespace trireme
