// Counts what this thread allocates with new. To be included by one source file of a program: it replaces operator new.
#pragma once

#include <cstdlib>
#include <new>

namespace trireme {

inline thread_local long allocations_of_this_thread = 0;

}  // namespace trireme

void* operator new(std::size_t bytes) {
  ++trireme::allocations_of_this_thread;
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
