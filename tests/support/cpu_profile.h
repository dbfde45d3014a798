// A profile of CPU ranks, as `trireme plan --calibrate` would write it, with numbers of no machine.
#pragma once

#include <fstream>
#include <string>

namespace trireme::test {

/// Writes it to `file`; returns that. `memory`: bytes that each rank may use.
inline std::string write_cpu_profile(const std::string& file, long long memory = 4LL << 30) {
  std::ofstream(file) << R"({"format": 1, "grade": "calibrated", "ranks_per_node": 2,
  "device": {"name": "CPU of tests", "kind": "cpu", "threads": 1, "instruction_set": "portable",
             "native_bf16": 0, "memory": )"
                      << memory << R"(, "peak": {"bf16": 2e10, "f32": 5e10}},
  "product_model": {"efficiency": 0.7, "half_k": 50},
  "attention": {"forward": 0.3, "backward": 0.3}, "bytes_per_s": 5e9, "op_us": 2,
  "links": [{"group": "node", "op": "any", "alpha_us": 3, "beta_gbs": 4}],
  "port_efficiency": 1, "collective_us": 5, "contention": 0.1,
  "context_bytes": 8388608, "nccl_bytes": 0, "spread": 0.05})";
  return file;
}

}  // namespace trireme::test
