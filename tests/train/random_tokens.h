#pragma once

#include <cstdint>
#include <span>

#include "trireme/core/random.h"
#include "trireme/data/source.h"

namespace trireme::test {

/// Samples of `length` tokens that are a function of the sample.
class RandomTokens final : public DataSource {
 public:
  static constexpr Index usual_length = 16, vocabulary = 61;

  explicit RandomTokens(Index length = usual_length) : length_(length) {}

  Index fill(Index sample, std::span<const Tensor> out) override {
    const Random random = random_for(5, "tokens", static_cast<std::uint64_t>(sample));
    for (std::size_t k = 0; k < out.size(); ++k)
      for (Index i = 0; i < length_ && out[k].data != nullptr; ++i)
        out[k].as<std::int32_t>()[i] =
            static_cast<std::int32_t>(random.bits(i + static_cast<Index>(k)) % vocabulary);
    return length_;
  }

 private:
  Index length_;
};

}  // namespace trireme::test
