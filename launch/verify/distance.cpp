#include "launch/verify/distance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/core/error.h"

namespace trireme::verify {
namespace {

/// f(element) for each element of a box, in row-major order.
template <class F>
void for_each_element(const Box& box, const Shape& global, F&& f) {
  const Shape strides = global.packed_strides();
  const int dims = global.dims();
  const Index row = dims == 0 ? 1 : box.size[dims - 1];
  for (Index r = 0; row > 0 && r < box.count() / row; ++r) {
    Index rest = r, first = dims == 0 ? 0 : box.begin[dims - 1];
    for (int d = dims - 2; d >= 0; --d) {
      first += (box.begin[d] + rest % box.size[d]) * strides[d];
      rest /= box.size[d];
    }
    for (Index i = first; i < first + row; ++i) f(i);
  }
}

double square(double x) { return x * x; }

/// What is no number is infinitely far, not equal to everything.
double apart(float a, float b) {
  const double difference = std::abs(static_cast<double>(a) - static_cast<double>(b));
  return std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
}

}  // namespace

double Distance::relative() const {
  if (layout == 0) return 0;
  return norm > 0 ? layout / norm : std::numeric_limits<double>::infinity();
}

Distance distance_of(const TensorSides& sides, const Shape& global,
                     const std::vector<Piece>& pieces) {
  std::vector<Piece> parts = pieces;
  if (parts.empty()) parts.push_back({whole_box(global), -1});
  Distance found;
  double farthest = 0;
  std::vector<double> means;
  for (const Piece& part : parts) {
    double sum = 0;
    for_each_element(part.box, global, [&](Index element) {
      const auto i = static_cast<std::size_t>(element);
      const double difference = apart(sides.truth[i], sides.layout[i]);
      found.norm += square(sides.truth[i]);
      if (!sides.one.empty()) found.one += square(apart(sides.truth[i], sides.one[i]));
      sum += square(difference);
      if (difference <= farthest) return;
      farthest = difference;
      found.element = element;
      found.truth_there = sides.truth[i];
      found.layout_there = sides.layout[i];
    });
    found.layout += sum;
    means.push_back(part.box.count() > 0 ? sum / static_cast<double>(part.box.count()) : 0);
  }
  const auto most = std::max_element(means.begin(), means.end());
  found.piece = static_cast<std::size_t>(most - means.begin());
  constexpr double much = 1e-6;  // of squares
  found.pieces_apart = static_cast<std::size_t>(std::count_if(
      means.begin(), means.end(), [&](double mean) { return mean > 0 && !(mean < much * *most); }));
  found.norm = std::sqrt(found.norm);
  found.one = std::sqrt(found.one);
  found.layout = std::sqrt(found.layout);
  return found;
}

std::string index_text(Index element, const Shape& global) {
  std::string text;
  for (int d = global.dims() - 1; d >= 0; --d) {
    text = str(element % global[d], text.empty() ? "" : ", ", text);
    element /= global[d];
  }
  return "[" + text + "]";
}

std::string box_text(const Box& box) {
  std::string text;
  for (int d = 0; d < box.size.dims(); ++d)
    text += str(d > 0 ? ", " : "", box.begin[d], ':', box.begin[d] + box.size[d]);
  return "[" + text + "]";
}

}  // namespace trireme::verify
