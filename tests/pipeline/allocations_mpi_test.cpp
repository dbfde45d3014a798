#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "tests/pipeline/allocations.h"

namespace {
thread_local bool counting = false;
thread_local int allocations = 0;
}  // namespace

void* operator new(std::size_t bytes) {
  if (counting) ++allocations;
  if (void* data = std::malloc(bytes == 0 ? 1 : bytes)) return data;
  throw std::bad_alloc();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }

namespace trireme::test {

void start_counting_allocations() {
  allocations = 0;
  counting = true;
}

int stop_counting_allocations() {
  counting = false;
  return allocations;
}

TEST(Allocations, AreCounted) {
  start_counting_allocations();
  ::operator delete(::operator new(1));
  EXPECT_EQ(stop_counting_allocations(), 1);
}

}  // namespace trireme::test
