// What gpu_nccl_benchmark has found: a table on stderr, JSON lines on stdout, and a JSON file that
// is replaced whole after every row.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/benchmarks/gpu/nccl_case.h"

namespace trireme::test {

/// Of one operation, in µs.
struct Times {
  double median, least, most;
  double host;  // until the host could continue, median
  Index repeats;
};

struct Measured {
  Times us;
  Index wrong;  // elements, of all ranks
};

/// Writes on rank 0 only.
class NcclReport {
 public:
  /// `file`: empty: none. Throws: Error when it cannot be written.
  NcclReport(int rank, nlohmann::ordered_json header, std::string file);
  /// Without a value: there is no such form.
  void row(const Size& size, const std::optional<Measured>& out_of_place,
           const std::optional<Measured>& in_place);
  /// `stopped`: why not all was measured; empty: it was.
  void end(const std::string& stopped, Index wrong);

 private:
  void write() const;

  int rank_;
  nlohmann::ordered_json content_;
  std::string file_;
};

}  // namespace trireme::test
