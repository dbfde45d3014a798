// One loop serves every type and reduction: 64 bytes of each source at a time, held in vector
// registers. What limits it is memory, so the portable vector types of the compiler are enough.
// bf16 is widened as it is read, and what is kept between two loops stays wide: it is rounded once.
#include "runtime/comm/node/reduce.h"

#include <algorithm>
#include <cstring>

#include "trireme/core/bf16.h"

namespace trireme::comm {
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

/// What a stored type is reduced in.
template <class T>
struct Wide {
  using type = T;
};
template <>
struct Wide<Bf16> {
  using type = float;
};
template <class T>
T widened(T x) {
  return x;
}
float widened(Bf16 x) { return to_float(x); }
template <class To, class T>
To stored(T x) {
  if constexpr (std::is_same_v<To, Bf16>)
    return to_bf16(x);
  else
    return x;
}

/// to[i] = start[i] op from[0][i] op ... op from[sources - 1][i], without `start` where it is null;
/// `to` may be one of them. The fixed number of sources keeps the sum in a register.
template <class Op, int sources, class To, class T>
void fold(To* to, const typename Wide<T>::type* start, const T* const* from, Index count) {
  const T* source[sources];
  std::copy(from, from + sources, source);
#pragma GCC ivdep
  for (Index i = 0; i < count; ++i) {
    auto sum = widened(source[0][i]);
    if (start != nullptr) sum = Op::apply(start[i], sum);
    for (int s = 1; s < sources; ++s) sum = Op::apply(sum, widened(source[s][i]));
    to[i] = stored<To>(sum);
  }
}

template <class Op, class To, class T>
void fold(To* to, const typename Wide<T>::type* start, const T* const* from, std::size_t sources,
          Index count) {
  switch (sources) {
    case 1:
      return fold<Op, 1>(to, start, from, count);
    case 2:
      return fold<Op, 2>(to, start, from, count);
    case 3:
      return fold<Op, 3>(to, start, from, count);
    case 4:
      return fold<Op, 4>(to, start, from, count);
    case 5:
      return fold<Op, 5>(to, start, from, count);
    case 6:
      return fold<Op, 6>(to, start, from, count);
    case 7:
      return fold<Op, 7>(to, start, from, count);
    default:
      return fold<Op, 8>(to, start, from, count);
  }
}

template <class T, class Op>
void reduce_all(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                Index count) {
  using W = typename Wide<T>::type;
  constexpr Index block = 8192 / Index{sizeof(W)};
  W partial[block];  // of more sources than one loop reads
  for (Index begin = 0; begin < count; begin += block) {
    const Index size = std::min(block, count - begin);
    T* const first_target = reinterpret_cast<T*>(targets[0]) + begin;
    const W* start = nullptr;
    const T* from[at_once] = {};
    std::size_t held = 0;
    for (const std::byte* source : sources) {
      if (held == at_once) {
        fold<Op>(partial, start, from, held, size);
        start = partial;
        held = 0;
      }
      from[held++] = reinterpret_cast<const T*>(source) + begin;
    }
    fold<Op>(first_target, start, from, held, size);
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
    case DType::bf16:
      return reduce_as<Bf16>(reduction, sources, targets, count);
    case DType::f64:
      return reduce_as<double>(reduction, sources, targets, count);
    case DType::i32:
      return reduce_as<std::int32_t>(reduction, sources, targets, count);
    case DType::i64:
      return reduce_as<std::int64_t>(reduction, sources, targets, count);
    case DType::u8:
      throw Error(str("no reduction of ", dtype, "; f32, bf16, f64, i32 and i64 have one"));
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

}  // namespace trireme::comm
