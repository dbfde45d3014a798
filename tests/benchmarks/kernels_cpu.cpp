// Speeds of the CPU kernels.
#include <benchmark/benchmark.h>
BENCHMARK_MAIN();
