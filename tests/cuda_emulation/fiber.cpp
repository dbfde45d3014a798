// The switch saves what the x86-64 calling convention wants saved, on the stack, and exchanges
// stack pointers: no system call (ucontext makes one, ten times slower). Elsewhere the emulation is
// not built.
#include "tests/cuda_emulation/fiber.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include <pthread.h>
#include <sys/mman.h>

#if defined(EMULATION_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(EMULATION_THREAD_SANITIZER)
extern "C" {
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void* __tsan_get_current_fiber();
void __tsan_acquire(void* point);
void __tsan_release(void* point);
}
#endif

extern "C" void trireme_emulation_switch(void** save, void* load);
// Calls r13 with r12 as its argument.
extern "C" void trireme_emulation_enter();
asm(R"(
.text
.globl trireme_emulation_switch
.type trireme_emulation_switch,@function
.p2align 4
trireme_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size trireme_emulation_switch,.-trireme_emulation_switch
.globl trireme_emulation_enter
.type trireme_emulation_enter,@function
.p2align 4
trireme_emulation_enter:
  movq %r12,%rdi
  subq $8,%rsp
  call *%r13
  ud2
.size trireme_emulation_enter,.-trireme_emulation_enter
)");

namespace trireme::emulation {
namespace {

constexpr std::size_t guard_bytes = 4096;

#if defined(EMULATION_THREAD_SANITIZER)
constexpr unsigned no_synchronisation = 1;
#endif

}  // namespace

Fiber::Fiber() {
#if defined(EMULATION_ADDRESS_SANITIZER)
  pthread_attr_t attributes;
  void* lowest = nullptr;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0 ||
      pthread_attr_getstack(&attributes, &lowest, &bytes_) != 0) {
    std::perror("cuda emulation: where is the stack of this thread");
    std::abort();
  }
  pthread_attr_destroy(&attributes);
  lowest_ = static_cast<char*>(lowest);
#endif
#if defined(EMULATION_THREAD_SANITIZER)
  tsan_ = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(NewStack /*yes*/) {
  void* memory = mmap(nullptr, stack_bytes + guard_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, guard_bytes, PROT_NONE) != 0) {
    std::perror("cuda emulation: no memory for stacks");
    std::abort();
  }
  stack_ = lowest_ = static_cast<char*>(memory) + guard_bytes;
#if defined(EMULATION_THREAD_SANITIZER)
  tsan_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  if (stack_ == nullptr) return;
#if defined(EMULATION_THREAD_SANITIZER)
  __tsan_destroy_fiber(tsan_);
#endif
  munmap(stack_ - guard_bytes, stack_bytes + guard_bytes);
}

void Fiber::prepare(void (*entry)()) { prepare(reinterpret_cast<void*>(entry), nullptr, nullptr); }

void Fiber::prepare(void (*entry)(void*), void* argument) {
  prepare(reinterpret_cast<void*>(trireme_emulation_enter), argument,
          reinterpret_cast<void*>(entry));
}

/// What the first switch returns to, with these in r12 and r13.
void Fiber::prepare(void* entry, void* r12, void* r13) {
  auto top = reinterpret_cast<std::uintptr_t>(stack_ + stack_bytes) & ~std::uintptr_t{63};
  auto** pointer = reinterpret_cast<void**>(top);
  *--pointer = nullptr;  // where entry would return to
  *--pointer = entry;
  for (void* saved : {static_cast<void*>(nullptr), static_cast<void*>(nullptr), r12, r13,
                      static_cast<void*>(nullptr), static_cast<void*>(nullptr)})
    *--pointer = saved;  // rbp, rbx, r12, r13, r14, r15
  stack_pointer_ = pointer;
#if defined(EMULATION_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(stack_, stack_bytes);
#endif
}

void Fiber::switch_to(Fiber& to, [[maybe_unused]] Leaving leaving) {
#if defined(EMULATION_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(leaving == Leaving::for_good ? nullptr : &fake_stack_, to.lowest_,
                                 to.bytes_);
#endif
#if defined(EMULATION_THREAD_SANITIZER)
  __tsan_switch_to_fiber(to.tsan_, no_synchronisation);
#endif
  trireme_emulation_switch(&stack_pointer_, to.stack_pointer_);
#if defined(EMULATION_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::started() {
#if defined(EMULATION_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

void release([[maybe_unused]] void* point) {
#if defined(EMULATION_THREAD_SANITIZER)
  __tsan_release(point);
#endif
}

void acquire([[maybe_unused]] void* point) {
#if defined(EMULATION_THREAD_SANITIZER)
  __tsan_acquire(point);
#endif
}

}  // namespace trireme::emulation
