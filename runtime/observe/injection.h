// Faults that a rank plants in itself when another process asks for them by a word in its status
// page (`trireme chaos`). The rank acts on the word only where it was allowed to when it was
// started: train/chaos/planted_faults.h.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::observe {

enum class InjectedFault : std::uint32_t {
  none,
  hang,       // computes without end
  slow,       // computes for longer for some steps
  nan,        // a gradient that is no number, in one step
  flip,       // a bit of a parameter, before replicas are compared
  xid,        // as if the driver had reported Xid 79 of its GPU
  full_disk,  // files cannot grow until a save has failed
};
inline constexpr std::uint32_t injected_fault_count =
    static_cast<std::uint32_t>(InjectedFault::full_disk) + 1;

struct Injection {
  InjectedFault fault = InjectedFault::none;
  std::uint32_t draw = 0;  // which parameter or bit, by remainders
};

/// 0 only for `none`.
std::uint64_t word_of(const Injection& injection);
/// A word with an unknown fault is `none`.
Injection injection_of(std::uint64_t word);

/// Asks the rank whose page this is. Throws: Error that names the file when it is no status page,
/// or one of another version.
void inject(const std::string& page, const Injection& injection);

}  // namespace trireme::observe
