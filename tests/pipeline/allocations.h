// Counts what the calling thread allocates with operator new. One definition for the whole test program.
#pragma once

namespace trireme::test {

void start_counting_allocations();
/// How many since start.
int stop_counting_allocations();

}  // namespace trireme::test
