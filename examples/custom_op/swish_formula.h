// The formula of swish and of its derivative, for both compilers: y = x * sigmoid(beta * x).
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define SWISH_ON_BOTH __host__ __device__
#else
#define SWISH_ON_BOTH
#endif

SWISH_ON_BOTH inline float swish_gate(float x, float beta) { return 1 / (1 + expf(-beta * x)); }
SWISH_ON_BOTH inline float swish_value(float x, float beta) { return x * swish_gate(x, beta); }
SWISH_ON_BOTH inline float swish_slope(float x, float beta) {
  const float gate = swish_gate(x, beta);
  return gate + beta * x * gate * (1 - gate);
}
