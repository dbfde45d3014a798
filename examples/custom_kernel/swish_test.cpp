// The gradient of the op against finite differences: alone, used twice, recomputed, with and
// without shared memory.
#include "swish.h"

#include <iostream>

int main() {
  using namespace trireme;
  const std::unique_ptr<Device> device = open_cpu();
  for (const Spec& x : {Spec{7, 33}, Spec{1, 1}, Spec{130, 65}}) {
    const auto error = gradient_check([](Graph&, const Values& in) { return swish(in[0], 1.3f); },
                                      {{x, -3, 3}}, *device);
    std::cout << "largest relative error of the gradient: " << error << " (at most 1e-4)\n";
    if (!(error < 1e-4)) return 1;
  }
  return std::cout.flush() ? 0 : 1;
}
