// Opens and measures devices. The only header that knows which devices exist.
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

/// Throws: Error when the instruction set (given, or named by the environment) is not available on
/// this machine, or threads < 1.
std::unique_ptr<Device> open_cpu(const CpuOptions& options = {});
/// The traits that it would have, without opening it. Throws: as open_cpu.
DeviceTraits cpu_traits(const CpuOptions& options = {});

/// FMA peak in FLOP/s of one thread of this machine, fp32, measured for about 50 ms.
double measure_peak_flops(InstructionSet set = InstructionSet::best);
/// Queues copies that fill `bytes` of device memory with values between 1/2 and 2 and their
/// negatives, whether read as f32 or as bf16. Products are timed on such data: on zeros a GPU draws
/// less power and is faster.
void fill_for_timing(Stream& stream, void* data, Index bytes);
/// Best copy rate of the stream's device within about 100 ms, in bytes/s, read plus written. Copies
/// 256 MiB (128 MiB on a CPU), or an eighth of the free memory. Waits for the stream.
double measure_copy_rate(Stream& stream);
/// Best rate in FLOP/s of the device's own GEMM, f32 or bf16 with a result of the same type, over
/// square sizes from 256 until one takes 10 ms or memory runs short. Takes about 100 ms per size.
/// Log lines call it "GEMM peak". Waits for the stream.
double measure_gemm_flops(Stream& stream, DType dtype = DType::f32);

}  // namespace trireme
