#include "tests/support/allocation_counter.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include <link.h>

namespace {

thread_local long allocations = 0;
thread_local volatile bool serves_onednn = false;  // compilers assume that malloc reads none

/// Where oneDNN's code lies; empty where the program has none.
struct Range {
  std::uintptr_t begin = 0, end = 0;
};

int find_onednn(dl_phdr_info* library, std::size_t, void* range) {
  if (std::strstr(library->dlpi_name, "libdnnl") == nullptr) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& segment = library->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = library->dlpi_addr + segment.p_vaddr;
    *static_cast<Range*>(range) = {begin, begin + segment.p_memsz};
  }
  return 1;
}

bool is_onednn(const void* caller) {
  static const Range code = [] {
    Range range;
    dl_iterate_phdr(find_onednn, &range);
    return range;
  }();
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  return code.begin <= address && address < code.end;
}

void* allocate(std::size_t bytes, const void* caller) noexcept {
  serves_onednn = is_onednn(caller);
  if (!serves_onednn) ++allocations;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  serves_onednn = false;
  return memory;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* memory = allocate(bytes, __builtin_return_address(0))) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace trireme::test {

long allocations_of_this_thread() { return allocations; }
bool allocates_for_onednn() { return serves_onednn; }

}  // namespace trireme::test
