// Reading boxes of logical tensors into memory of any device, with little host memory.
#pragma once

#include <functional>
#include <vector>

#include "trireme/core/device.h"
#include "trireme/options/options.h"

#include "runtime/optim/flat_parameters.h"
#include "runtime/store/read/reader.h"

namespace trireme::checkpoint {

/// The largest host buffer for data on its way to a device that is not a CPU. Large enough that the
/// disk and the copies, which alternate, are each busy for long.
inline constexpr Index passing_bytes = Index{256} << 20;

/// Threads that read for a rank: one reads while another one verifies.
int reading_threads(const Options& options);

/// Host memory that read_into needs for boxes of `wanted_bytes`. `direct`: they are read into
/// place, in memory of a CPU that keeps f32 as it is.
Index reading_bytes(bool direct, Index wanted_bytes, int threads);

/// Like TensorSource::read(), with Wanted::data on the device of `stream`: directly into memory of
/// a CPU, through the host in batches for other devices. `kept`: f32, or bf16 where memory has the
/// f32 tensors in bf16, to which they are rounded on the host. On return all data is in place;
/// after an exception any part of it may be.
ReadReport read_into(Stream& stream, TensorSource& source, const std::vector<Wanted>& wanted,
                     int threads, const std::function<void()>& has_read = {},
                     DType kept = DType::f32);

/// What a rank reads of a source: `also`, into place, and its parameters, each as it is kept.
ReadReport read_parameters(Stream& stream, TensorSource& source, const FlatParameters& flat,
                           const std::vector<Wanted>& also, int threads,
                           const std::function<void()>& has_read);

/// The path through the host: in batches of at most `most` bytes, into which larger boxes are cut.
ReadReport read_in_batches(Stream& stream, TensorSource& source, const std::vector<Wanted>& wanted,
                           int threads, Index most, const std::function<void()>& has_read = {},
                           DType kept = DType::f32);

}  // namespace trireme::checkpoint
