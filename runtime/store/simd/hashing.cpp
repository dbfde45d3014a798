// XXH3-128 (https://github.com/Cyan4973/xxHash) alone and fused with a copy. Compiled once per
// instruction set, so all but the table at the end is internal to this file: an inline function
// shared with others could carry AVX2 into their code.
#include <cstring>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

// How far ahead of its reads the hash prefetches, so that memory is busy while a step is hashed and
// stored (measured best with steps of one block of XXH3, 1 KiB). It prefetches past its own small
// buffer, too, which is harmless.
#define XXH_PREFETCH_DIST 6144
#pragma GCC diagnostic ignored "-Warray-bounds"
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/store/hashing.h"

namespace trireme::store::TRIREME_SIMD {
namespace {

constexpr Index step_bytes = 1024;  // stays in the first cache between hash and copy
alignas(64) constexpr unsigned char zeros[step_bytes] = {};

Checksum value(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }

// Stores 64 bytes to an aligned address past the caches: a line that is not read soon is not
// fetched to be overwritten, which makes a large copy a third cheaper, as in memcpy.
void stream_line(const unsigned char* from, unsigned char* to) {
#if defined(__AVX2__)
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32));
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), a);
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to + 32), b);
#elif defined(__SSE2__)
  for (int i = 0; i < 64; i += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
#else
  std::memcpy(to, from, 64);
#endif
}

Index bytes_to_boundary(const void* address, Index boundary) {
  const auto past = static_cast<Index>(reinterpret_cast<std::uintptr_t>(address) %
                                       static_cast<std::uintptr_t>(boundary));
  return boundary - past;
}

void stream(const unsigned char* from, unsigned char* to, Index bytes) {
  Index done = bytes_to_boundary(to, 64) % 64;
  if (done > bytes) done = bytes;
  std::memcpy(to, from, static_cast<std::size_t>(done));
  for (; done + 64 <= bytes; done += 64) stream_line(from + done, to + done);
  std::memcpy(to + done, from + done, static_cast<std::size_t>(bytes - done));
}

Checksum checksum(const void* data, Index bytes) {
  return value(XXH3_128bits(data, static_cast<std::size_t>(bytes)));
}

Checksum copy_and_checksum(const Bytes* from, Index count, void* to) {
  // On a page of its own, so that the stack below lies the same in every call: at some places (3 %
  // of them, measured) its stores share the lowest 12 bits with those to a new page of `to`, wait
  // for it, and all takes twice as long.
  alignas(4096) XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_128bits_reset(&state);
  auto* out = static_cast<unsigned char*>(to);
  for (const Bytes* part = from; part < from + count; ++part) {
    const auto* in = static_cast<const unsigned char*>(part->data);
    for (Index left = part->count; left > 0;) {
      Index step = bytes_to_boundary(out, step_bytes);  // later steps are whole lines
      if (step > left) step = left;
      const unsigned char* source = in ? in : zeros;
      XXH3_128bits_update(&state, source, static_cast<std::size_t>(step));
      stream(source, out, step);
      if (in) in += step;
      out += step;
      left -= step;
    }
  }
#if defined(__SSE2__)
  _mm_sfence();  // streaming stores are not ordered with the store that signals their completion to
                 // another thread
#endif
  return value(XXH3_128bits_digest(&state));
}

}  // namespace

extern const Hashing hashing;
const Hashing hashing = {checksum, copy_and_checksum};

}  // namespace trireme::store::TRIREME_SIMD
