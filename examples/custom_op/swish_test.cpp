// The gradient of the op against finite differences: alone, used twice, recomputed, with and without shared memory.
#include "swish.h"

#include <cstdio>

int main() {
  using namespace trireme;
  const std::unique_ptr<Device> device = open_cpu();
  double worst = 0;
  for (const Spec& x : {Spec{7, 33}, Spec{1, 1}, Spec{130, 65}})
    worst = std::max(worst, gradient_check(Swish(1.3f), {{x, -3, 3}}, *device));
  std::printf("largest relative error of the gradient: %.1e (at most 1e-4)\n", worst);
  return worst < 1e-4 ? 0 : 1;
}
