// Counts what a test program allocates with new. Linking it (by calling it) replaces operator new in the program.
#pragma once

namespace trireme::test {

/// Calls of operator new by this thread so far.
long allocations_of_this_thread();

}  // namespace trireme::test
