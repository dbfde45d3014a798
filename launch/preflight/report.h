// What a preflight has measured: an object for each node and for each pair of nodes, and the same
// as JSON. Works without MPI.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/json/json.h"

namespace trireme::preflight {

/// The kind of a node that could not be checked.
inline const std::string unknown_kind = "unknown";

struct Node {
  std::string host;
  std::string kind;  // processor, cores and GPUs: only nodes of one kind are compared
  std::map<std::string, std::string> facts;   // "kernel": "6.1.0"
  std::map<std::string, double> figures;      // "gemm_gflops": 412.5 (figure_rules of judge.h)
  std::vector<std::string> faults, warnings;  // that the node has found itself
};

struct Pair {
  std::string from, to;
  double latency_us = 0;  // one way, 8 bytes
  double gb_per_s = 0;    // one way
};

/// GPUs that NCCL connects.
struct Group {
  std::string name;     // "n1", "GPU 3 of each node", "all GPUs"
  std::string kind;     // "in node", "rail", "whole": only groups of one kind are compared
  double gb_per_s = 0;  // bus bandwidth of an all-reduce
  Index gpus = 0;       // only groups of as many are compared; 0: a report of an older program
};

struct Report {
  std::vector<Node> nodes;
  std::vector<Pair> pairs = {};
  // The long preflight adds these; `host` of a GPU is "n1/gpu3". Reports of older programs have
  // none.
  std::vector<Node> gpus = {};
  std::vector<Group> groups = {};
};

Json to_json(const Node& node);
Json to_json(const Pair& pair);
Json to_json(const Group& group);
Json to_json(const Report& report);
/// Throws: Error that names what is missing, or says that the report is of a newer program.
Node node_of(const Json& json);
Report report_of(const Json& json);

// Marks of what trireme_preflight prints for the command that has started it.

/// Stands before the report, on a line.
inline constexpr std::string_view mark = "trireme-preflight-report ";
/// Stands before "HOST: CHECK", on a line, when a check begins.
inline constexpr std::string_view progress_mark = "trireme-preflight-begins ";

}  // namespace trireme::preflight
