// How a program gets its device. The only place that knows which devices exist.
#pragma once

#include <memory>
#include <string>

#include "trireme/core/device.h"
#include "trireme/kernels/instruction_set.h"

namespace trireme {

struct CpuOptions {
  int threads = 1;
  InstructionSet instruction_set = InstructionSet::best;
};

/// Throws: Error when the instruction set, or that of the environment, is not available here, or
/// threads < 1.
std::unique_ptr<Device> open_cpu(const CpuOptions& options = {});

/// FMA peak in FLOP/s of one thread of this machine, fp32, measured for about 50 ms.
double measure_peak_flops(InstructionSet set = InstructionSet::best);
/// Queues copies that fill `bytes` (of its device) with values between 1/2 and 2 and their
/// negatives, whether read as f32 or as bf16: what products are timed on. Of zeros a GPU needs less
/// power, so it is faster.
void fill_for_timing(Stream& stream, void* data, Index bytes);
/// Rate in bytes/s, read and written, of copies on the stream's device, the best of some 100 ms: of
/// 256 MiB (on a CPU 128), or an eighth of what is free. Waits for the stream.
double measure_copy_rate(Stream& stream);
/// Best rate in FLOP/s of the device's own GEMM of f32 or bf16, result of the same type, over
/// squares from 256 on until one takes 10 ms or memory is short; some 100 ms each: the "GEMM peak"
/// of log lines. Waits for the stream.
double measure_gemm_flops(Stream& stream, DType dtype = DType::f32);

}  // namespace trireme
