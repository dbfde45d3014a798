// One loop serves every type and reduction: 64 bytes of each source at a time, held in vector
// registers. What limits it is memory, so the portable vector types of the compiler are enough.
#include "runtime/comm/reduce.h"

#include <algorithm>
#include <cstring>

namespace trireme {
namespace {

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    return a + b;
  }
};
// `a != a` keeps a NaN that came first; a NaN that comes second fails the comparison and is taken.
struct Max {
  template <class T>
  static T apply(T a, T b) {
    const T larger = a > b ? a : b;
    return a != a ? a : larger;  // NOLINT(misc-redundant-expression)
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    const T smaller = a < b ? a : b;
    return a != a ? a : smaller;  // NOLINT(misc-redundant-expression)
  }
};

constexpr std::size_t at_once = 8;  // sources that one loop reads

/// to[i] = from[0][i] op ... op from[sources - 1][i]; `to` may be one of them. The fixed number of sources keeps the sum
/// in a register.
template <class Op, int sources, class T>
void fold(T* to, const T* const* from, Index count) {
  const T* source[sources];
  std::copy(from, from + sources, source);
#pragma GCC ivdep
  for (Index i = 0; i < count; ++i) {
    T sum = source[0][i];
    for (int s = 1; s < sources; ++s) sum = Op::apply(sum, source[s][i]);
    to[i] = sum;
  }
}

template <class Op, class T>
void fold(T* to, const T* const* from, std::size_t sources, Index count) {
  switch (sources) {
    case 1:
      return fold<Op, 1>(to, from, count);
    case 2:
      return fold<Op, 2>(to, from, count);
    case 3:
      return fold<Op, 3>(to, from, count);
    case 4:
      return fold<Op, 4>(to, from, count);
    case 5:
      return fold<Op, 5>(to, from, count);
    case 6:
      return fold<Op, 6>(to, from, count);
    case 7:
      return fold<Op, 7>(to, from, count);
    default:
      return fold<Op, 8>(to, from, count);
  }
}

template <class T, class Op>
void reduce_all(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                Index count) {
  constexpr Index block = 8192 / Index{sizeof(T)};
  T partial[block];  // of more sources than one loop reads
  for (Index begin = 0; begin < count; begin += block) {
    const Index size = std::min(block, count - begin);
    T* const first_target = reinterpret_cast<T*>(targets[0]) + begin;
    const T* from[at_once];
    std::size_t held = 0;
    for (const std::byte* source : sources) {
      if (held == at_once) {
        fold<Op>(partial, from, held, size);
        from[0] = partial;
        held = 1;
      }
      from[held++] = reinterpret_cast<const T*>(source) + begin;
    }
    fold<Op>(first_target, from, held, size);
    for (std::byte* target : targets.subspan(1))
      std::memcpy(reinterpret_cast<T*>(target) + begin, first_target,
                  static_cast<std::size_t>(size) * sizeof(T));
  }
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
