// FlatParameters: the parameters and gradients of this rank in memory, as a FlatLayout lays them
// out.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <functional>

#include "trireme/comm/communicator.h"
#include "trireme/core/bf16.h"
#include "trireme/core/device.h"

#include "runtime/optim/flat_layout.h"

namespace trireme {

class FlatParameters final : public FlatLayout {
 public:
  /// Memory of parameter_bytes() and gradient_bytes(), aligned to 64; borrowed. Throws: Error when
  /// it is missing or not aligned.
  FlatParameters(const FlatLayout& layout, std::byte* parameters, std::byte* gradients);

  /// The f32 masters: master_count() elements, whose offsets are those of FlatBuffer::masters. Null
  /// where a compute copy is all there is.
  float* master_data() const { return has_masters() ? master_data_ : nullptr; }
  /// Where extents of FlatBuffer::masters with this type lie: the masters, or the compute copy.
  std::byte* kept_data(DType type) const;
  float* gradient_data() const { return gradient_data_; }
  /// The compute copy; null if ops read the masters themselves.
  Bf16* compute_data() const { return compute_data_; }
  /// Recomputes the compute copy from this rank's masters. Call it after something other than an
  /// update has written them; an update does this itself. No effect without a copy.
  void refresh_compute_copy(Stream& stream) const;
  /// Elements `range` of the compute copy, or of the masters if there is none: what ops read, and
  /// what is gathered after a sharded update.
  Elements computed(FlatRange range) const;
  /// Tensors in the order of plan.parameters(), for ExecutorMemory; parameters are in the compute
  /// type; gradients of frozen ones have no memory. Throws: as positions().
  std::vector<Tensor> parameter_tensors(const Plan& plan) const;
  std::vector<Tensor> gradient_tensors(const Plan& plan) const;

  /// Parameters become zero, padding too, which nothing else writes.
  void clear(Stream& stream);
  /// After clear(). Writes the initial values: element i of a logical tensor depends on (seed,
  /// name, i) only. The compute copy gets the same values, rounded. The threads of `host` generate
  /// them, whatever the device.
  /// `from_row`(name): only rows (of dim 0) of that logical tensor from there on.
  void initialise(std::uint64_t seed, Stream& stream, ThreadPool& host,
                  const std::function<Index(const std::string&)>& from_row = {});

 private:
  struct Drawn;
  bool has_masters() const { return !has_copy() || trained_count() > 0; }
  void store(const Bucket& bucket, Index begin, const Drawn& drawn, Stream& stream);
  std::vector<Tensor> tensors(const Plan& plan, void* data, DType dtype) const;

  float* master_data_;
  float* gradient_data_;
  Bf16* compute_data_;
};

}  // namespace trireme
