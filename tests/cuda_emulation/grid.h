// Grid: runs a kernel on the host. Blocks run one after the other on the calling thread; the CUDA
// threads of a block are fibers that change at every warp or block synchronisation, both in an
// order that tests choose. Wrong masks, divergent barriers and blocks that cannot continue end the
// program with the threads and lines concerned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <vector_types.h>

#include "tests/cuda_emulation/async_copies.h"
#include "tests/cuda_emulation/fiber.h"
#include "tests/cuda_emulation/settings.h"

namespace trireme::emulation {

inline constexpr int warp_lanes = 32;

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};

/// Which block comes next, and which runnable fiber of it runs; results must not depend on it.
enum class Order { forward, reverse, random };
struct GridOptions {
  Order order = Order::forward;
  std::uint64_t seed = 1;
  /// As EMULATION_ORDER says; forward when it is not set.
  static GridOptions from_environment();
};

class Grid {
 public:
  /// The one device of this process.
  static Grid& instance();

  GridOptions options = GridOptions::from_environment();
  /// "kernels/cuda/norm.cu:22": a barrier that no thread waits at, to see that tests notice
  /// (tests/cuda_emulation/barriers); empty: none.
  std::string without_barrier = setting("EMULATION_WITHOUT_BARRIER", "");

  /// Runs `body` for every thread. `name` appears in messages.
  void run(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes,
           const std::function<void()>& body);

  // Called by kernels. `where`: "file:line".
  void block_sync(const char* where);
  void warp_sync(std::uint32_t mask, const char* where);
  /// The value of lane `source` of this warp, among the lanes of `mask`.
  template <class T>
  T shuffle(std::uint32_t mask, T value, int source, const char* where);
  /// Bit i: what lane i passed.
  std::uint32_t ballot(std::uint32_t mask, bool predicate, const char* where);
  /// What a whole warp does at once: the last of its 32 lanes to come runs `work` for all, on what
  /// each lane passed.
  using Lanes = std::array<void*, warp_lanes>;
  using WarpWork = void (*)(const Lanes&);
  void together(void* mine, WarpWork work, const char* where);
  /// Of the thread that runs.
  AsyncCopies& copies() { return current_->copies; }
  /// Lanes of this warp that have not returned.
  std::uint32_t live_lanes() const;
  int lane() const;
  void* dynamic_shared() const;
  bool in_kernel() const { return in_kernel_; }
  [[noreturn]] void fail(const char* format, ...) const __attribute__((format(printf, 2, 3)));

 private:
  static constexpr std::size_t shuffle_bytes = 16;
  enum class State : std::uint8_t { ready, waits_for_warp, waits_for_block, done };
  struct Thread {
    Fiber fiber{Fiber::NewStack::yes};
    Index3 index;
    int lane = 0, warp = 0;
    State state = State::done;
    const char* where = nullptr;
    AsyncCopies copies;
  };
  /// What a lane leaves for the others at a warp operation.
  struct Slot {
    alignas(16) std::array<unsigned char, shuffle_bytes> value{}, result{};
    std::uint32_t mask = 0, ballot = 0;
    int source = 0;
    bool predicate = false;
    void* mine = nullptr;
    WarpWork work = nullptr;
    unsigned generation = 0;
    std::array<char, 2> point{};  // for release and acquire
  };
  struct Warp {
    std::uint32_t ready = 0, waits_for_warp = 0, waits_for_block = 0, live = 0;
    std::array<Slot, warp_lanes> slots;
  };

  void shuffle_bytes_of(void* value, std::size_t bytes, std::uint32_t mask, int source,
                        const char* where);
  bool left_out(const char* where);
  static void entry();
  void run_block(dim3 block, std::size_t shared_bytes);
  std::uint64_t block_at(std::uint64_t turn, std::uint64_t blocks) const;
  void prepare_threads(dim3 block);
  void allocate_shared(std::size_t bytes);
  void exchange(std::uint32_t mask, const char* where, WarpWork work = nullptr);
  void serve(Warp& warp, std::uint32_t mask, const char* where);
  void yield();
  void finish();
  void open_barrier();
  Thread* pick();
  int pick_lane(std::uint32_t ready, int after) const;
  void resume(Thread& thread);
  [[noreturn]] void deadlock() const;
  Slot& my_slot();

  std::vector<std::unique_ptr<Thread>> threads_;  // grows to the largest block
  std::vector<Warp> warps_;
  Fiber host_;
  Thread* current_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  const char* name_ = "?";
  int count_ = 0, live_ = 0, arrived_ = 0;
  unsigned generation_ = 0;
  std::array<char, 2> barrier_point_{};
  char start_point_ = 0, end_point_ = 0;
  struct Free {
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Free> shared_;
  std::uint64_t random_ = 1;
  bool in_kernel_ = false, told_what_is_left_out_ = false;
};

template <class T>
EMULATION_UNSEEN T Grid::shuffle(std::uint32_t mask, T value, int source, const char* where) {
  static_assert(sizeof(T) <= shuffle_bytes && std::is_trivially_copyable_v<T>);
  shuffle_bytes_of(&value, sizeof(T), mask, source, where);
  return value;
}

}  // namespace trireme::emulation

// The built-in variables of kernels.
inline trireme::emulation::Index3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
