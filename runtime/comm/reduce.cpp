// One loop serves every type and reduction: 64 bytes of each source at a time, held in vector
// registers. What limits it is memory, so the portable vector types of the compiler are enough.
#include "runtime/comm/reduce.h"

#include <cstring>

namespace trireme {
namespace {

struct Sum {
  template <class V>
  static void apply(V& a, const V& b) {
    a += b;
  }
};
// `a != a` keeps a NaN that came first; a NaN that comes second fails the comparison and is taken.
struct Max {
  template <class V>
  static void apply(V& a, const V& b) {
    a = (a > b) | (a != a) ? a : b;
  }
};
struct Min {
  template <class V>
  static void apply(V& a, const V& b) {
    a = (a < b) | (a != a) ? a : b;
  }
};

template <class T>
using Vector [[gnu::vector_size(64)]] = T;

/// Elements V of all sources from `offset` on: reduced and stored to all targets.
template <class V, class Op>
void reduce_at(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
               std::size_t offset) {
  V value, next;
  std::memcpy(&value, sources[0] + offset, sizeof(V));
  for (std::size_t s = 1; s < sources.size(); ++s) {
    std::memcpy(&next, sources[s] + offset, sizeof(V));
    Op::apply(value, next);
  }
  for (std::byte* target : targets) std::memcpy(target + offset, &value, sizeof(V));
}

template <class T, class Op>
void reduce_all(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                Index count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
  std::size_t offset = 0;
  for (; offset + 64 <= bytes; offset += 64) reduce_at<Vector<T>, Op>(sources, targets, offset);
  for (; offset < bytes; offset += sizeof(T)) reduce_at<T, Op>(sources, targets, offset);
}

template <class T>
void reduce_as(Reduction reduction, std::span<const std::byte* const> sources,
               std::span<std::byte* const> targets, Index count) {
  switch (reduction) {
    case Reduction::sum:
      return reduce_all<T, Sum>(sources, targets, count);
    case Reduction::max:
      return reduce_all<T, Max>(sources, targets, count);
    case Reduction::min:
      return reduce_all<T, Min>(sources, targets, count);
  }
}

}  // namespace

void reduce(DType dtype, Reduction reduction, std::span<const std::byte* const> sources,
            std::span<std::byte* const> targets, Index count) {
  switch (dtype) {
    case DType::f32:
      return reduce_as<float>(reduction, sources, targets, count);
    case DType::f64:
      return reduce_as<double>(reduction, sources, targets, count);
    case DType::i32:
      return reduce_as<std::int32_t>(reduction, sources, targets, count);
    case DType::i64:
      return reduce_as<std::int64_t>(reduction, sources, targets, count);
    default:
      throw Error(str("no reduction of ", dtype, "; f32, f64, i32 and i64 have one"));
  }
}

const char* name(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::max:
      return "max";
    case Reduction::min:
      return "min";
  }
  return "?";
}

}  // namespace trireme
