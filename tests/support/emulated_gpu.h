// How a test starts an ordinary program on GPUs of the host emulation (tests/cuda_emulation): the
// unchanged CUDA module, loaded as on a machine that has GPUs. For integration tests whose names
// begin with gpu_.
#pragma once

#include <ostream>
#include <string>

namespace trireme::test {

/// In which legal order streams and threads run: tests/cuda_emulation/settings.h.
struct EmulatedOrder {
  std::string streams = "eager", threads = "forward";
};

/// The name of a test that has it as its parameter.
inline void PrintTo(const EmulatedOrder& order, std::ostream* out) {
  *out << order.streams << ", " << order.threads;
}

inline std::string variables_of(const EmulatedOrder& order) {
  return "EMULATION_SCHEDULE=" + order.streams + " EMULATION_ORDER=" + order.threads;
}

/// Put this before a command line.
inline std::string on_emulated_gpus(const EmulatedOrder& order = {},
                                    const std::string& devices = "8") {
  return "env TRIREME_CUDA_MODULE=" TRIREME_EMULATED_MODULE " " + variables_of(order) +
         " EMULATION_DEVICES=" + devices + " ";
}

}  // namespace trireme::test
