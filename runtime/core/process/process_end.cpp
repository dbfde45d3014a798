#include "runtime/core/process/process_end.h"

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace trireme {

// Both streams stay bad once a write has failed.
int exit_code_with_output(int code) {
  const bool streams = std::cout.flush().good();
  const bool files = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (streams && files) return code;
  std::fputs("trireme: standard output cannot be written: is its disk full?\n", stderr);
  return code == EXIT_SUCCESS ? EXIT_FAILURE : code;
}

}  // namespace trireme
