// Refused with one sentence: the functions of an op of two inputs take one number, or three.
#include "trireme/nn/pointwise.h"

trireme::Value twice(trireme::Value x, trireme::Value y) {
  return pointwise(
      "twice", [](float a) { return 2 * a; }, [](float, float) { return 2.0f; }, x, y);
}
trireme::Value sum(trireme::Value x, trireme::Value y) {
  return pointwise_sum(
      "sum", [](float a, float b) { return a + b; }, [](float, float, float) { return 1.0f; }, x,
      y);
}
