// Hashing: what checksum.h does, as compiled for one instruction set; chosen at run time. Every set
// gives the same values.
#pragma once

#include "runtime/store/checksum.h"

namespace trireme::store {

struct Hashing {
  Checksum (*checksum)(const void* data, Index bytes);
  Checksum (*copy_and_checksum)(const Bytes* from, Index count, void* to);
};

enum class HashingSet { portable, avx2 };
/// Null when this build has no such code, or this machine cannot run it; never for `portable`.
const Hashing* find_hashing(HashingSet set);

}  // namespace trireme::store
