// HfSource: the tensors of a model in files of Hugging Face, read by their logical names.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <map>

#include "runtime/interop/names.h"
#include "runtime/store/read/reader.h"
#include "runtime/store/safetensors/reader.h"

namespace trireme::interop {

class HfSource final : public TensorSource {
 public:
  /// `views` fit `files` (see fit()), which are borrowed. `progress` is called with the bytes that
  /// were read, by any thread.
  HfSource(const safetensors::Directory& files, const std::vector<HfView>& views,
           std::function<void(Index)> progress = {});

  /// Names are logical names, behind `prefix`. Boxes have one or two dims. Rows of a table of
  /// tokens that are beyond those of the files stay as they are. Throws: Error that names the
  /// tensor.
  ReadReport read(const std::vector<Wanted>& wanted, int threads,
                  const std::function<void()>& has_read) override;
  bool fills(const Wanted& wanted) const override;
  /// Returns the sum (safetensors::RowsRead::sum) over all reads so far.
  std::uint64_t sum() const { return sum_; }

  static constexpr const char* prefix = "parameters/";

 private:
  const HfView& view(const Wanted& wanted) const;
  safetensors::Rectangle rectangle(const Wanted& wanted) const;

  const safetensors::Directory& files_;
  std::map<std::string, HfView> views_;  // by logical name
  std::function<void(Index)> progress_;
  std::uint64_t sum_ = 0;
};

/// Throws: Error when the two tensors, of one shape, differ in a bit.
void expect_equal(const safetensors::Directory& files, const safetensors::LocatedTensor& a,
                  const safetensors::LocatedTensor& b);

}  // namespace trireme::interop
