// What a preflight has measured: an object for each node and for each pair of nodes, and the same
// as JSON. Works without MPI.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/core/json.h"

namespace trireme::preflight {

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

struct Report {
  std::vector<Node> nodes;
  std::vector<Pair> pairs;
};

Json to_json(const Node& node);
Json to_json(const Pair& pair);
Json to_json(const Report& report);
/// Throws: Error that names what is missing.
Node node_of(const Json& json);
Report report_of(const Json& json);

}  // namespace trireme::preflight
