// Counts what a test program allocates with new. Linking it replaces operator new in the program.
#pragma once

namespace trireme::test {

/// Calls of operator new by this thread so far, except by oneDNN's code.
long allocations_of_this_thread();

/// Inside malloc: is it called by an operator new that oneDNN's code has called?
bool allocates_for_onednn();

}  // namespace trireme::test
