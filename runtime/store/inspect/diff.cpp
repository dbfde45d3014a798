// Implements diff_steps (inspect.h).
// diff_steps: forms first, then contents. Contents are read in windows: flat ranges of tensors, as
// many as memory holds, so that small tensors share a read and large ones never lie in memory
// whole.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "trireme/core/buffer.h"
#include "trireme/core/error.h"

#include "runtime/core/visit_dtype.h"
#include "runtime/store/inspect/inspect.h"
#include "runtime/store/read/reader.h"

namespace trireme {
namespace {

template <class T>
T element(const std::byte* from, Index i) {
  T value;
  std::memcpy(&value, from + i * static_cast<Index>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
std::uint64_t bits_of(const T& value) {
  static_assert(std::endian::native == std::endian::little);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <class T>
TensorDifference::Element described(T value) {
  std::string hex = fmt::format("0x{:0{}x}", bits_of(value), 2 * sizeof(T));
  if constexpr (std::is_same_v<T, Bf16>)
    return {fmt::format("{}", to_float(value)), std::move(hex)};
  else
    return {fmt::format("{}", value), std::move(hex)};
}

template <class T>
double distance(T a, T b) {
  if constexpr (std::is_integral_v<T>)  // exact before it is rounded, and without overflow
    return static_cast<double>(static_cast<std::uint64_t>(std::max(a, b)) -
                               static_cast<std::uint64_t>(std::min(a, b)));
  else
    return std::abs(to_double(a) - to_double(b));
}

template <class T>
bool is_finite(T value) {
  return std::isfinite(to_double(value));
}

Shape index_of(Index flat, const Shape& shape) {
  Shape index = shape;
  for (int d = shape.dims() - 1; d >= 0; --d) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index;
}

Box whole(const Shape& global) {
  Box box{global, global};
  for (int d = 0; d < global.dims(); ++d) box.begin[d] = 0;
  return box;
}

/// Elements [begin, end) of a tensor's row-major order.
struct Stretch {
  const Manifest::Tensor* tensor;
  std::size_t outcome;  // index of what is found out about the tensor
  Index begin, end;
  Index bytes() const { return (end - begin) * size_bytes(tensor->dtype); }
};

/// |a - b| where the sides are about 1 or less, else its share of the larger one.
template <class T>
double difference(T a, T b) {
  const double x = to_double(a), y = to_double(b);
  return distance(a, b) / std::max({1.0, std::abs(x), std::abs(y)});
}

/// Adds what differs in a stretch to `found`.
template <class T>
void compare(const std::byte* a, const std::byte* b, const Stretch& stretch, double tolerance,
             TensorDifference& found) {
  const double most = std::is_integral_v<T> ? 0 : tolerance;
  Index largest = -1;
  if (std::memcmp(a, b, static_cast<std::size_t>(stretch.bytes())) == 0) return;
  for (Index i = 0; i < stretch.end - stretch.begin; ++i) {
    const T x = element<T>(a, i), y = element<T>(b, i);
    if (bits_of(x) == bits_of(y)) continue;
    if (found.differing++ == 0) {
      found.first = index_of(stretch.begin + i, stretch.tensor->global);
      found.a = described(x);
      found.b = described(y);
    }
    if (!is_finite(x) || !is_finite(y)) {
      ++found.not_finite;
      ++found.beyond;
      continue;
    }
    found.largest_distance = std::max(found.largest_distance, distance(x, y));
    const double apart = difference(x, y);
    if (apart > most || most == 0) ++found.beyond;
    if (apart <= found.largest.difference) continue;
    found.largest.difference = apart;
    largest = i;
  }
  if (largest < 0) return;
  found.largest.index = index_of(stretch.begin + largest, stretch.tensor->global);
  found.largest.a = described(element<T>(a, largest));
  found.largest.b = described(element<T>(b, largest));
}

/// Compares the contents of tensors that have one form on both sides, given one after the other.
class ContentsComparison {
 public:
  ContentsComparison(const OpenedStep& a, const OpenedStep& b, const DiffOptions& options,
                     StepDiff& diff)
      : sides_{&a, &b}, threads_(options.threads), tolerance_(options.tolerance), diff_(diff) {
    const Index one_side = std::max<Index>(options.window_bytes / 2, sizeof(double));
    for (Buffer& buffer : buffers_) buffer = allocate_host(one_side);
  }

  /// What differs is added to diff.tensors[outcome].
  void add(const Manifest::Tensor& tensor, std::size_t outcome) {
    const Index size = size_bytes(tensor.dtype), count = tensor.global.count();
    for (Index begin = 0; begin < count;) {
      if (space_left() < size) flush();
      const Index end = std::min(count, begin + space_left() / size);
      window_.push_back({&tensor, outcome, begin, end});
      used_ += window_.back().bytes();
      begin = end;
    }
  }

  /// Compares what was added since the last time.
  void flush() {
    for (const int side : {0, 1}) read(side);
    const std::byte *a = buffers_[0].data(), *b = buffers_[1].data();
    for (const Stretch& stretch : window_) {
      visit(stretch.tensor->dtype, [&]<class T>(T) {
        compare<T>(a, b, stretch, tolerance_, diff_.tensors[stretch.outcome]);
      });
      a += stretch.bytes();
      b += stretch.bytes();
    }
    diff_.bytes_compared += used_;
    window_.clear();
    used_ = 0;
  }

 private:
  Index space_left() const { return buffers_[0].bytes() - used_; }

  /// The window of one side, packed.
  void read(int side) {
    std::vector<Wanted> wanted;
    std::byte* to = buffers_[side].data();
    for (const Stretch& stretch : window_) {
      const Manifest::Tensor& tensor = *stretch.tensor;
      for (const Box& box : boxes_of_flat_range(whole(tensor.global), stretch.begin, stretch.end)) {
        wanted.push_back({tensor.name, tensor.dtype, tensor.global, box, to});
        to += box.count() * size_bytes(tensor.dtype);
      }
    }
    if (!wanted.empty())
      read_boxes(sides_[side]->directory, sides_[side]->manifest, wanted, threads_);
  }

  const OpenedStep* sides_[2];
  int threads_;
  double tolerance_;
  StepDiff& diff_;
  Buffer buffers_[2];
  std::vector<Stretch> window_;
  Index used_ = 0;
};

void compare_facts(const std::string& group, const KeyValues& a, const KeyValues& b,
                   std::vector<FactDifference>& different) {
  const auto value_of = [](const KeyValues& facts,
                           const std::string& name) -> std::optional<std::string> {
    for (const auto& [each, value] : facts)
      if (each == name) return value;
    return std::nullopt;
  };
  for (const auto& [name, value] : a)
    if (const auto other = value_of(b, name); other != value)
      different.push_back({group, name, value, other});
  for (const auto& [name, value] : b)
    if (!value_of(a, name)) different.push_back({group, name, std::nullopt, value});
}

std::string form(const Manifest::Tensor& tensor) { return str(tensor.dtype, " ", tensor.global); }

/// Of what a comparison speaks, by name.
std::vector<const Manifest::Tensor*> tensors_of(const Manifest& manifest,
                                                DiffOptions::Scope scope) {
  std::vector<const Manifest::Tensor*> chosen;
  for (const Manifest::Tensor& tensor : manifest.tensors)
    if (scope == DiffOptions::Scope::everything || tensor.name.starts_with("parameters/"))
      chosen.push_back(&tensor);
  std::sort(chosen.begin(), chosen.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });
  return chosen;
}

}  // namespace

Index StepDiff::beyond() const {
  return std::count_if(tensors.begin(), tensors.end(),
                       [](const TensorDifference& each) { return each.counts(); });
}

const TensorDifference* StepDiff::largest() const {
  const TensorDifference* found = nullptr;
  for (const TensorDifference& each : tensors)
    if (each.largest.difference > (found == nullptr ? 0 : found->largest.difference)) found = &each;
  return found;
}

StepDiff diff_steps(const OpenedStep& a, const OpenedStep& b, const DiffOptions& options) {
  using Kind = TensorDifference::Kind;
  StepDiff diff;
  diff.tolerance = options.tolerance;
  const Manifest &m = a.manifest, &n = b.manifest;
  compare_facts("identity", m.identity, n.identity, diff.facts);
  compare_facts("options", m.options, n.options, diff.facts);
  compare_facts("versions", m.versions, n.versions, diff.facts);
  compare_facts("positions", m.positions, n.positions, diff.facts);

  ContentsComparison contents(a, b, options, diff);
  const auto left = tensors_of(m, options.scope), right = tensors_of(n, options.scope);
  for (auto x = left.begin(), y = right.begin(); x != left.end() || y != right.end();) {
    TensorDifference found;
    const bool here = y == right.end() || (x != left.end() && (*x)->name <= (*y)->name);
    const bool there = x == left.end() || (y != right.end() && (*y)->name <= (*x)->name);
    found.name = here ? (*x)->name : (*y)->name;
    if (here) found.form_a = form(**x);
    if (there) found.form_b = form(**y);
    found.kind = !there                         ? Kind::only_in_a
                 : !here                        ? Kind::only_in_b
                 : found.form_a != found.form_b ? Kind::form
                                                : Kind::contents;
    if (found.kind == Kind::contents) found.elements = (*x)->global.count();
    diff.tensors.push_back(found);
    if (found.kind == Kind::contents) {
      ++diff.tensors_compared;
      contents.add(**x, diff.tensors.size() - 1);
    }
    if (here) ++x;
    if (there) ++y;
  }
  contents.flush();
  std::erase_if(diff.tensors, [](const TensorDifference& each) {
    return each.kind == Kind::contents && each.differing == 0;
  });
  return diff;
}

}  // namespace trireme
