// The switch saves what the x86-64 calling convention wants saved, on the stack, and exchanges
// stack pointers: no system call (ucontext makes one, ten times slower). Elsewhere the emulation is
// not built.
#include "tests/cuda_emulation/fiber.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

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

void Fiber::prepare(void (*entry)()) {
  constexpr int saved_registers = 6;
  auto top = reinterpret_cast<std::uintptr_t>(stack_ + stack_bytes) & ~std::uintptr_t{63};
  auto** pointer = reinterpret_cast<void**>(top);
  *--pointer = nullptr;  // where entry would return to
  *--pointer = reinterpret_cast<void*>(entry);
  for (int i = 0; i < saved_registers; ++i) *--pointer = nullptr;
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
