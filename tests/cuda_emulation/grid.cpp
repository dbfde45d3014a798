// ThreadSanitizer must not see the scheduler, only the kernels: this file is compiled without it.
#include "tests/cuda_emulation/grid.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string_view>

#include "tests/cuda_emulation/device_code.h"
#include "tests/cuda_emulation/settings.h"

#if defined(EMULATION_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

// Static __shared__ memory lies in a section of its own, which is poisoned before every block.
// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
extern char __start_trireme_shared[] __attribute__((weak));
extern char __stop_trireme_shared[] __attribute__((weak));
// NOLINTEND(bugprone-reserved-identifier)

namespace trireme::emulation {
namespace {

constexpr unsigned most_threads = 1024, most_block_z = 64, most_grid_yz = 65535;
constexpr std::size_t shared_alignment = 128;
constexpr int poison = 0xff;  // NaN as a float

std::size_t rounded(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

#if defined(EMULATION_ADDRESS_SANITIZER)
__attribute__((no_sanitize("address"), noinline))
#endif
void poison_static_shared() {
  if (__start_trireme_shared == nullptr) return;
  for (volatile char* p = __start_trireme_shared; p < __stop_trireme_shared; ++p)
    *p = static_cast<char>(poison);
}

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

void Grid::Free::operator()(void* memory) const { std::free(memory); }

Grid& Grid::instance() {
  static Grid grid;
  return grid;
}

GridOptions GridOptions::from_environment() {
  const std::string text = setting("EMULATION_ORDER", "forward");
  const auto [word, seed] = parse_setting(text, 1);
  if (word == "forward") return {Order::forward, seed};
  if (word == "reverse") return {Order::reverse, seed};
  if (word == "random") return {Order::random, seed};
  refuse_setting(text, "forward, reverse, random:SEED");
}

bool Grid::left_out(const char* where) {
  if (without_barrier.empty() || !std::string_view(where).ends_with(without_barrier)) return false;
  if (!told_what_is_left_out_) std::fprintf(stderr, "cuda emulation: no barrier at %s\n", where);
  told_what_is_left_out_ = true;
  return true;
}

void Grid::fail(const char* format, ...) const {
  std::fprintf(stderr, "cuda emulation: kernel %s, block (%u,%u,%u), thread (%u,%u,%u): ", name_,
               blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "\n");
  std::abort();
}

void Grid::deadlock() const {
  std::fprintf(stderr, "cuda emulation: kernel %s, block (%u,%u,%u): deadlock, %d threads live:\n",
               name_, blockIdx.x, blockIdx.y, blockIdx.z, live_);
  int shown = 0;
  for (int i = 0; i < count_ && shown < 12; ++i) {
    const Thread& t = *threads_[at(i)];
    if (t.state != State::waits_for_warp && t.state != State::waits_for_block) continue;
    std::fprintf(stderr, "  thread (%u,%u,%u) waits %s at %s\n", t.index.x, t.index.y, t.index.z,
                 t.state == State::waits_for_warp ? "for its warp" : "for its block", t.where);
    ++shown;
  }
  std::abort();
}

cudaError_t begin_launch() {
  static const int refused = std::atoi(setting("EMULATION_REFUSED_LAUNCH", "0").c_str());
  static int launches = 0;
  return ++launches == refused ? cudaErrorLaunchFailure : cudaSuccess;
}

void Grid::run(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes,
               const std::function<void()>& body) {
  if (in_kernel_) fail("launches another kernel");
  name_ = name;
  const unsigned threads = block.x * block.y * block.z;
  if (threads == 0 || threads > most_threads || block.z > most_block_z)
    fail("a block of (%u,%u,%u) threads cannot be launched", block.x, block.y, block.z);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > most_grid_yz || grid.z > most_grid_yz)
    fail("a grid of (%u,%u,%u) blocks cannot be launched", grid.x, grid.y, grid.z);
  if (shared_bytes > most_shared_bytes())
    fail("%zu bytes of shared memory, more than %zu", shared_bytes, most_shared_bytes());
  in_kernel_ = true;
  body_ = &body;
  blockDim = block;
  gridDim = grid;
  count_ = static_cast<int>(threads);
  random_ = options.seed * 2654435761u + 1;
  while (threads_.size() < threads) threads_.push_back(std::make_unique<Thread>());
  warps_.resize((threads + warp_lanes - 1) / warp_lanes);
  const std::uint64_t rows = grid.y, blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  for (std::uint64_t turn = 0; turn < blocks; ++turn) {
    const std::uint64_t index = block_at(turn, blocks), row = index / grid.x;
    blockIdx = {static_cast<unsigned>(index % grid.x), static_cast<unsigned>(row % rows),
                static_cast<unsigned>(row / rows)};
    run_block(block, shared_bytes);
  }
  in_kernel_ = false;
}

/// Which block comes in this turn: every block once. By chance: steps that have no divisor in
/// common with their number.
std::uint64_t Grid::block_at(std::uint64_t turn, std::uint64_t blocks) const {
  if (options.order == Order::forward) return turn;
  if (options.order == Order::reverse) return blocks - 1 - turn;
  std::uint64_t step = (options.seed * 2654435761u % blocks) | 1;
  while (std::gcd(step, blocks) != 1) ++step;
  return (turn * step + options.seed) % blocks;
}

void Grid::run_block(dim3 block, std::size_t shared_bytes) {
  allocate_shared(shared_bytes);
  poison_static_shared();
  prepare_threads(block);
  live_ = count_;
  arrived_ = 0;
  current_ = nullptr;
  release(&start_point_);
  Thread* first = pick();
  resume(*first);
  host_.switch_to(first->fiber, Fiber::Leaving::for_now);
  current_ = nullptr;
  acquire(&end_point_);
#if defined(EMULATION_ADDRESS_SANITIZER)
  if (shared_bytes > 0)
    __asan_unpoison_memory_region(shared_.get(), rounded(shared_bytes, shared_alignment));
#endif
  shared_.reset();
}

/// Exactly as large as asked for, so that AddressSanitizer sees the byte after it.
void Grid::allocate_shared(std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t whole = rounded(bytes, shared_alignment);
  shared_.reset(std::aligned_alloc(shared_alignment, whole));
  std::memset(shared_.get(), poison, bytes);
#if defined(EMULATION_ADDRESS_SANITIZER)
  __asan_poison_memory_region(static_cast<char*>(shared_.get()) + bytes, whole - bytes);
#endif
}

void Grid::prepare_threads(dim3 block) {
  for (std::size_t w = 0; w < warps_.size(); ++w) {
    const int lanes = std::min(count_ - static_cast<int>(w) * warp_lanes, warp_lanes);
    warps_[w].ready = warps_[w].live = lanes == warp_lanes ? ~0u : (1u << lanes) - 1;
    warps_[w].waits_for_warp = warps_[w].waits_for_block = 0;
  }
  for (int i = 0; i < count_; ++i) {
    Thread& t = *threads_[at(i)];
    const auto n = static_cast<unsigned>(i);
    t.lane = i % warp_lanes;
    t.warp = i / warp_lanes;
    t.index = {n % block.x, n / block.x % block.y, n / block.x / block.y};
    t.state = State::ready;
    t.where = nullptr;
    t.fiber.prepare(&Grid::entry);
  }
}

void Grid::entry() {
  Fiber::started();
  Grid& grid = instance();
  acquire(&grid.start_point_);
  (*grid.body_)();
  grid.finish();
}

void Grid::open_barrier() {
  arrived_ = 0;
  ++generation_;
  for (Warp& warp : warps_) {
    warp.ready |= warp.waits_for_block;
    warp.waits_for_block = 0;
  }
}

/// A thread returned: the last one of a block switches back to the host.
void Grid::finish() {
  Thread& me = *current_;
  Warp& warp = warps_[at(me.warp)];
  const std::uint32_t bit = 1u << me.lane;
  if (me.copies.pending()) fail("returns before it waited for its copies to shared memory");
  warp.ready &= ~bit;
  warp.live &= ~bit;
  me.state = State::done;
  --live_;
  release(&end_point_);
  release(&barrier_point_[generation_ & 1]);
  if (live_ > 0 && arrived_ == live_) open_barrier();
  if (Thread* next = pick()) {
    resume(*next);
    me.fiber.switch_to(next->fiber, Fiber::Leaving::for_good);
  } else {
    if (live_ > 0) deadlock();
    me.fiber.switch_to(host_, Fiber::Leaving::for_good);
  }
  std::abort();
}

void Grid::block_sync(const char* where) {
  if (left_out(where)) return;
  Thread& me = *current_;
  Warp& warp = warps_[at(me.warp)];
  char* point = &barrier_point_[generation_ & 1];
  release(point);
  const std::uint32_t bit = 1u << me.lane;
  warp.ready &= ~bit;
  warp.waits_for_block |= bit;
  me.state = State::waits_for_block;
  me.where = where;
  if (++arrived_ == live_)
    open_barrier();
  else
    yield();
  me.state = State::ready;
  acquire(point);
}

void Grid::warp_sync(std::uint32_t mask, const char* where) {
  if (left_out(where)) return;
  Slot& slot = my_slot();
  slot.source = current_->lane;
  slot.predicate = false;
  exchange(mask, where);
}

void Grid::shuffle_bytes_of(void* value, std::size_t bytes, std::uint32_t mask, int source,
                            const char* where) {
  Slot& slot = my_slot();
  std::memcpy(slot.value.data(), value, bytes);
  slot.source = source & (warp_lanes - 1);
  slot.predicate = false;
  exchange(mask, where);
  std::memcpy(value, slot.result.data(), bytes);
}

int Grid::lane() const { return current_->lane; }
void* Grid::dynamic_shared() const { return shared_.get(); }
Grid::Slot& Grid::my_slot() { return warps_[at(current_->warp)].slots[at(current_->lane)]; }

std::uint32_t Grid::ballot(std::uint32_t mask, bool predicate, const char* where) {
  Slot& slot = my_slot();
  slot.source = current_->lane;
  slot.predicate = predicate;
  exchange(mask, where);
  return slot.ballot;
}

void Grid::together(void* mine, WarpWork work, const char* where) {
  Slot& slot = my_slot();
  slot.source = current_->lane;
  slot.predicate = false;
  slot.mine = mine;
  exchange(~0u, where, work);
}

std::uint32_t Grid::live_lanes() const { return warps_[at(current_->warp)].live; }

// A lane leaves its value, the lane it wants to read and its mask, then waits; the last lane of the
// mask to come serves all at once, so disjoint masks can be under way in one warp and no slot is
// used again too early.
void Grid::exchange(std::uint32_t mask, const char* where, WarpWork work) {
  Thread& me = *current_;
  Warp& warp = warps_[at(me.warp)];
  const std::uint32_t bit = 1u << me.lane;
  if ((mask & bit) == 0)
    fail("%s: lane %d is not in the mask %08x that it passes", where, me.lane, mask);
  if ((mask & ~warp.live) != 0)
    fail("%s: the mask %08x names lanes of warp %d that have returned or do not exist (live: %08x)",
         where, mask, me.warp, warp.live);
  Slot& lead = warp.slots[at(__builtin_ctz(mask))];
  char* point = &lead.point[lead.generation & 1];
  release(point);
  warp.slots[at(me.lane)].mask = mask;
  warp.slots[at(me.lane)].work = work;
  warp.ready &= ~bit;
  warp.waits_for_warp |= bit;
  me.state = State::waits_for_warp;
  me.where = where;
  if ((warp.waits_for_warp & mask) == mask) {
    acquire(point);  // what the others passed
    serve(warp, mask, where);
    release(point);
    ++lead.generation;
  } else {
    yield();
  }
  me.state = State::ready;
  acquire(point);
}

void Grid::serve(Warp& warp, std::uint32_t mask, const char* where) {
  std::uint32_t votes = 0;
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const Slot& slot = warp.slots[at(i)];
    if (slot.mask != mask)
      fail("%s: lane %d waits with the mask %08x, this one with %08x", where, i, slot.mask, mask);
    if (slot.work != my_slot().work) fail("%s: lane %d waits at another operation", where, i);
    if (slot.predicate) votes |= 1u << i;
  }
  if (const WarpWork work = my_slot().work) {
    Lanes lanes{};
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = warp.slots[i].mine;
    work(lanes);
  }
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    Slot& slot = warp.slots[at(i)];
    if ((mask >> slot.source & 1) == 0)
      fail("%s: lane %d reads lane %d, outside of the mask %08x", where, i, slot.source, mask);
    slot.result = warp.slots[at(slot.source)].value;
    slot.ballot = votes;
  }
  warp.waits_for_warp &= ~mask;
  warp.ready |= mask;
}

void Grid::yield() {
  Thread& me = *current_;
  Thread* next = pick();
  if (next == nullptr) deadlock();
  if (next == &me) return;
  resume(*next);
  me.fiber.switch_to(next->fiber, Fiber::Leaving::for_now);
  resume(me);
}

void Grid::resume(Thread& thread) {
  threadIdx = thread.index;
  current_ = &thread;
}

/// The next runnable lane after lane `after`, around the warp.
int Grid::pick_lane(std::uint32_t ready, int after) const {
  if (options.order == Order::reverse) {
    const std::uint32_t below = after > 0 ? ready & ((1u << after) - 1) : 0;
    return 31 - __builtin_clz(below != 0 ? below : ready);
  }
  const std::uint32_t above = after >= 31 ? 0 : ready & ~((2u << after) - 1);
  return __builtin_ctz(above != 0 ? above : ready);
}

/// The same warp first, which keeps its lanes in step, then the others; null when no fiber can run.
Grid::Thread* Grid::pick() {
  const int warps = static_cast<int>(warps_.size());
  int warp = current_ != nullptr ? current_->warp : 0,
      lane = current_ != nullptr ? current_->lane : 31;
  if (options.order == Order::random) {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    warp = static_cast<int>((random_ >> 33) % static_cast<std::uint64_t>(warps));
    lane = static_cast<int>(random_ >> 50 & 31);
  }
  const int step = options.order == Order::reverse ? warps - 1 : 1;
  for (int i = 0; i < warps; ++i, warp = (warp + step) % warps) {
    const std::uint32_t ready = warps_[at(warp)].ready;
    if (ready != 0) return threads_[at(warp * warp_lanes + pick_lane(ready, lane))].get();
    lane = options.order == Order::reverse ? 0 : 31;
  }
  return nullptr;
}

}  // namespace trireme::emulation
