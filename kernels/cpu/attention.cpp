#include "kernels/cpu/cpu_stream.h"
namespace trireme {
const AttentionKernels cpu_attention_kernels = {};
}
