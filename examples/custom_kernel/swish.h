// An op with a CUDA kernel of its own (swish.cu).
#pragma once

#include <trireme/trireme.h>

/// x * sigmoid(beta * x), elementwise. x: f32, any shape, packed.
trireme::Value swish(trireme::Value x, float beta);
