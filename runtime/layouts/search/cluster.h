// Cluster: the GPUs that a layout is planned for, as groups of equal nodes; from a short text or a
// file.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/cost/network.h"

namespace trireme::layouts {

/// Equal nodes of equal GPUs.
struct GpuGroup {
  std::string gpu;  // as it was written: "H100-80"
  int nodes = 1, per_node = 1;
  cost::Profile profile;  // with the memory and the link of this group
  cost::Network network;
  double price = 0;  // price of a GPU for an hour; 0: unknown

  int gpus() const { return nodes * per_node; }
  /// What messages call one of them: a CPU is shared by ranks.
  const char* unit() const { return profile.is_cpu() ? "rank" : "GPU"; }
};

struct Cluster {
  std::vector<GpuGroup> groups;  // at least one

  int gpus() const;
  /// Returns the price of all GPUs for an hour; 0: one price is unknown.
  double price() const;
  /// Returns the power of all GPUs at their limits; 0: that of one type is unknown.
  double watts() const;
  /// "64 H100-SXM of 79.1 GiB, 8 nodes, 400 Gb/s a GPU".
  std::string describe() const;
};

/// "8x8xH100-80": nodes, GPUs of a node, GPU; "8xH100-80": one node; or the path of a file. The GPU
/// may be the file of a profile, of a GPU or of a CPU rank: "4xcpu.json". Throws: Error that says
/// what is wrong, and what would be right.
Cluster read_cluster(const std::string& text_or_file);
/// Whether it is the file of a cluster; that of a profile is none.
bool is_cluster_file(const std::string& path);
/// The text of such a file; `source`: its name, for messages.
///   {"groups": [{"gpu": "H100-80", "nodes": 8, "per_node": 8, "memory_gib": 79, "price": 2.5,
///                "link_gb_s": 360, "network_gbit_s": 400}]}
/// All but the first three are optional; "gpus" may say how many a group has. link_gb_s: what
/// collectives in a node reach, in one direction; network_gbit_s: the nominal rate of a GPU's port.
Cluster parse_cluster(std::string_view json, const std::string& source);

/// "2.5" for every GPU, "H100=2.5" for one type. Throws: Error when it is no price, or of a GPU
/// that the cluster does not have.
void set_price(Cluster& cluster, const std::string& price);

/// Returns what a calibration differs in from the cluster that is planned for, and a CPU's from
/// this machine: a line each. `cpu`: the name of this machine's CPU, as in profiles.
std::vector<std::string> calibration_doubts(const GpuGroup& group, const std::string& cpu);
/// Returns "CPU AMD EPYC 7B13".
std::string name_of_this_cpu();

}  // namespace trireme::layouts
