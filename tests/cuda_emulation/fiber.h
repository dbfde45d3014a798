// Fiber: a stack of its own that one OS thread switches to and from: one CUDA thread of the
// emulation, or one rank of tests/virtual_clock. The sanitizers are notified of every switch;
// ThreadSanitizer takes fibers for threads, which is how races between CUDA threads are found.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define EMULATION_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#define EMULATION_THREAD_SANITIZER 1
/// What belongs to the scheduler must stay invisible to the race detector.
#define EMULATION_UNSEEN __attribute__((no_sanitize("thread"), noinline))
#else
#define EMULATION_UNSEEN
#endif

namespace trireme::emulation {

class Fiber {
 public:
  static constexpr std::size_t stack_bytes = std::size_t{128} << 10;

  /// The fiber that runs now (the OS thread's own stack).
  Fiber();
  /// A new stack, with a guard page below it.
  enum class NewStack { yes };
  explicit Fiber(NewStack);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next switch to it starts `entry`, which never returns but switches away for the last time.
  void prepare(void (*entry)());
  /// The same with an argument.
  void prepare(void (*entry)(void*), void* argument);
  enum class Leaving { for_now, for_good };
  /// From this fiber, which runs, to another one.
  void switch_to(Fiber& to, Leaving leaving);
  /// First thing in `entry`.
  static void started();

 private:
  void prepare(void* entry, void* r12, void* r13);

  void* stack_pointer_ = nullptr;
  char* stack_ = nullptr;   // owned; null for the OS thread's
  char* lowest_ = nullptr;  // of the stack, whosever it is
  std::size_t bytes_ = stack_bytes;
  void* fake_stack_ = nullptr;  // AddressSanitizer's
  void* tsan_ = nullptr;        // ThreadSanitizer's
};

/// What happened before release(p) on one fiber happens before what follows acquire(p) on another.
/// Nothing without ThreadSanitizer.
void release(void* point);
void acquire(void* point);

}  // namespace trireme::emulation
