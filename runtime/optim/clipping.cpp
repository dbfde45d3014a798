#include "trireme/optim/clipping.h"

#include <cmath>

#include "trireme/kernels/kernels.h"

namespace trireme {

GradientNorm::GradientNorm(const FlatParameters& flat, Communicator& world, Stream& stream,
                           std::byte* scratch)
    : flat_(flat),
      world_(world),
      stream_(stream),
      sum_(reinterpret_cast<double*>(scratch)),
      ranges_(flat.norm_ranges()) {}

double GradientNorm::compute() {
  stream_.zero(sum_, size_bytes(DType::f64));
  for (const FlatRange& range : ranges_)
    stream_.kernels().optimizer.add_sum_of_squares(stream_, flat_.gradient_data() + range.begin,
                                                   range.count, sum_);
  world_.all_reduce({sum_, 1, DType::f64}, Reduction::sum, stream_);
  double sum = 0;
  stream_.copy(&sum, sum_, size_bytes(DType::f64));
  stream_.synchronize();
  return std::sqrt(sum);
}

double clip_coefficient(double norm, double max_norm) {
  // The small term is PyTorch's and Megatron's: it keeps the clipped norm below the limit.
  const double coefficient = max_norm / (norm + 1e-6);
  return max_norm == 0 || coefficient > 1 ? 1 : coefficient;
}

}  // namespace trireme
