#include "tests/cuda_emulation/nccl_elements.h"

#include <algorithm>
#include <cstdlib>

#include <cuda_bf16.h>

#include "tests/cuda_emulation/nccl_state.h"
#include "tests/cuda_emulation/settings.h"

namespace trireme::emulation {
namespace {

template <class T>
T combine(T a, T b, ncclRedOp_t op) {
  return op == ncclMax ? std::max(a, b) : op == ncclMin ? std::min(a, b) : a + b;
}
template <>
__nv_bfloat16 combine(__nv_bfloat16 a, __nv_bfloat16 b, ncclRedOp_t /*op: sums only*/) {
  return __float2bfloat16_rn(__bfloat162float(a) + __bfloat162float(b));
}

/// to[begin, end) = that of source[first] op source[first + 1] op ..., around the ranks.
template <class T>
void reduce_as(void* to, const std::vector<const std::byte*>& sources, std::size_t first,
               std::size_t begin, std::size_t end, ncclRedOp_t op) {
  const auto at = [&](std::size_t s, std::size_t i) {
    return reinterpret_cast<const T*>(sources[(first + s) % sources.size()])[i];
  };
  for (std::size_t i = begin; i < end; ++i) {
    T sum = at(0, i);
    for (std::size_t s = 1; s < sources.size(); ++s) sum = combine(sum, at(s, i), op);
    static_cast<T*>(to)[i] = sum;
  }
  if (begin < end && setting("EMULATION_WRONG_SUMS", "0") == "1")
    static_cast<T*>(to)[begin] = combine(static_cast<T*>(to)[begin], static_cast<T>(1), ncclSum);
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return 1;
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

const char* name_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return "u8";
    case ncclBfloat16:
      return "bf16";
    case ncclInt32:
      return "i32";
    case ncclFloat32:
      return "f32";
    case ncclInt64:
      return "i64";
    default:
      return "f64";
  }
}

void reduce(void* to, const std::vector<const std::byte*>& sources, std::size_t first,
            std::size_t begin, std::size_t end, ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclBfloat16:
      return reduce_as<__nv_bfloat16>(to, sources, first, begin, end, op);
    case ncclInt32:
      return reduce_as<std::int32_t>(to, sources, first, begin, end, op);
    case ncclInt64:
      return reduce_as<std::int64_t>(to, sources, first, begin, end, op);
    case ncclFloat32:
      return reduce_as<float>(to, sources, first, begin, end, op);
    case ncclFloat64:
      return reduce_as<double>(to, sources, first, begin, end, op);
    default:
      report("no reduction of bytes is emulated");
      std::abort();
  }
}

}  // namespace trireme::emulation
