// Constant: read-only data of a model that its ops read in every step, such as a table.
#pragma once

#include <cstddef>
#include <memory>

#include "trireme/core/dtype.h"

namespace trireme {

/// Plans need its size only. Its content is written once, when the model gets memory on a device.
class Constant {
 public:
  virtual ~Constant() = default;
  virtual Index bytes() const = 0;
  /// Writes bytes() to `to`, host memory aligned to 64 bytes.
  virtual void write(std::byte* to) const = 0;
};
using ConstantPtr = std::shared_ptr<const Constant>;

}  // namespace trireme
