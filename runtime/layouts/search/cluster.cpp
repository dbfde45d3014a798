#include "runtime/layouts/search/cluster.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>

#include <fmt/format.h>

#include "trireme/core/error.h"
#include "trireme/kernels/device.h"

#include "runtime/core/json/json_record.h"
#include "runtime/core/parse_number.h"
#include "runtime/core/require_call.h"
#include "runtime/core/show_bytes.h"
#include "runtime/cost/profile.h"

namespace trireme::layouts {
namespace {

constexpr int most_gpus = 1 << 20;
constexpr double gib = 1 << 30;
constexpr double bits = 8;

constexpr const char* form =
    "expected NODESxGPUSxGPU such as 8x8xH100-80, GPUSxGPU for one node such as 8xH100-80, or a "
    "file";

/// "H100-80" is an H100 of 80 GB: memory behind the name is compared with that of the profile.
cost::Profile profile_of(const std::string& gpu) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(gpu, ignored)) return cost::read_profile(gpu);
  const std::size_t dash = gpu.rfind('-');
  const auto memory = dash == std::string::npos
                          ? std::nullopt
                          : parse_number<int>(std::string_view(gpu).substr(dash + 1));
  if (!memory) return cost::known_profile(gpu);
  std::optional<cost::Profile> whole;
  try {
    whole = cost::known_profile(gpu);  // a name that ends with the memory, such as A100-80
  } catch (const Error&) {
  }
  if (whole) return *whole;
  cost::Profile profile = cost::known_profile(gpu.substr(0, dash));
  constexpr double tolerance = 0.1;  // GB or GiB, and what cannot be used
  const double said = *memory * gib, known = static_cast<double>(profile.memory);
  require(std::abs(said - known) <= tolerance * known, "the GPU '", gpu, "' has ", *memory,
          " GB by its name, but ", profile.name, " has ", show_bytes(profile.memory));
  return profile;
}

GpuGroup make_group(const std::string& gpu, int nodes, int per_node) {
  GpuGroup group;
  group.gpu = gpu;
  group.nodes = nodes;
  group.per_node = per_node;
  group.profile = profile_of(gpu);
  group.network.ranks_per_node = per_node;
  const cost::Profile& profile = group.profile;
  require(profile.node.bytes_per_s > 0 || per_node == 1, gpu,
          " was calibrated with one rank, which communicates with none; calibrate with as many "
          "ranks as a node will have");
  if (profile.across.bytes_per_s > 0)
    group.network.port = {profile.across.latency,
                          profile.across.bytes_per_s / profile.port_efficiency};
  return group;
}

/// "8 x H100" and "8XH100" as "8xH100": what stands between counts and the GPU.
std::string with_plain_crosses(const std::string& text) {
  const std::regex cross(R"(^\s*(\d+)\s*(x|X|\*|\xc3\x97)\s*(.*)$)");
  std::smatch parts;
  if (!std::regex_match(text, parts, cross)) return text;
  return parts[1].str() + "x" + with_plain_crosses(parts[3].str());
}

Cluster parse_text(const std::string& given) {
  const std::string text = with_plain_crosses(given);
  std::vector<int> counts;
  std::size_t begin = 0;
  for (std::size_t end; counts.size() < 2 && (end = text.find('x', begin)) != std::string::npos;
       begin = end + 1) {
    const auto count = parse_number<int>(std::string_view(text).substr(begin, end - begin));
    if (!count) break;
    require(*count >= 1 && *count <= most_gpus, "'", text, "' has a count of ", *count,
            ": at least 1 and at most ", most_gpus);
    counts.push_back(*count);
  }
  const bool one_gpu = counts.empty() && cost::is_known_gpu(text.substr(0, text.rfind('-')));
  if (one_gpu) return {{make_group(text, 1, 1)}};
  const bool may_be_a_file = text.find_first_of("./") != std::string::npos;
  if (counts.empty() && !may_be_a_file && cost::is_of_known_family(text)) cost::known_profile(text);
  require(!counts.empty() && begin < text.size(), "'", text,
          "' is no file, and no cluster: ", form);
  const bool one_node = counts.size() == 1;
  require(one_node || counts[0] <= most_gpus / counts[1], "'", text, "' has more than ", most_gpus,
          " GPUs");
  return {{make_group(text.substr(begin), one_node ? 1 : counts[0], counts.back())}};
}

Json parse_file(std::string_view json) {
  constexpr Index most_bytes = Index{1} << 20;
  return parse_json(json, {.text_bytes = most_bytes, .values = 100'000});
}

/// Throws: Error when there is no such file, or nothing in it.
std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require_call(file.is_open(), path, " cannot be read");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  require(!text.empty(), path, " is empty");
  return text;
}

/// A number above 0 that may be absent, which is 0.
double positive(JsonReader& group, const char* key) {
  double value = 0;
  group.optional(key, within(value, 1e-9, 1e9, "a number above 0"));
  return value;
}

/// What a file says of links counts in place of what was measured of collectives on others.
void forget_collectives(bool across, cost::Profile& profile) {
  std::erase_if(profile.collectives,
                [across](const cost::MeasuredCollective& one) { return one.across == across; });
}

/// What a file says beyond the type of the GPU.
void refine(JsonReader& reader, GpuGroup& group) {
  if (const double memory = positive(reader, "memory_gib"); memory > 0) {
    // A GPU of 80 GiB is often said to have them, of which a few hundred MiB cannot be used.
    constexpr double rounding = 1.02;
    const auto bytes = static_cast<Index>(memory * gib);
    if (memory * gib > rounding * static_cast<double>(group.profile.memory))
      reader.fail("memory_gib is ", memory, ", which contradicts gpu ", group.gpu, ": it has ",
                  show_bytes(group.profile.memory));
    group.profile.memory = std::min(bytes, group.profile.memory);
  }
  group.price = positive(reader, "price");
  if (const double rate = positive(reader, "link_gb_s"); rate > 0) {
    if (group.per_node == 1)
      reader.fail("link_gb_s contradicts per_node 1: a node has no second GPU to link");
    group.profile.node.bytes_per_s = rate * 1e9;
    forget_collectives(false, group.profile);
  }
  if (const double rate = positive(reader, "network_gbit_s"); rate > 0) {
    group.network.port.bytes_per_s = rate * 1e9 / bits;
    forget_collectives(true, group.profile);
  }
}

GpuGroup read_group(JsonReader& reader) {
  const auto gpu = reader.get<std::string>("gpu");
  const int nodes = reader.get("nodes", 1, most_gpus),
            per_node = reader.get("per_node", 1, most_gpus);
  if (nodes > most_gpus / per_node) reader.fail("nodes x per_node is more than ", most_gpus);
  GpuGroup group;
  try {
    group = make_group(gpu, nodes, per_node);
  } catch (const Error& error) {
    reader.fail("gpu: ", error.what());
  }
  if (const int gpus = reader.get_or("gpus", group.gpus(), 1, most_gpus); gpus != group.gpus())
    reader.fail("gpus is ", gpus, ", which contradicts nodes ", nodes, " x per_node ", per_node,
                " = ", group.gpus());
  refine(reader, group);
  reader.end();
  return group;
}

/// Two groups of the same nodes would be one; two prices of one GPU contradict each other.
void check_distinct(const Cluster& cluster, const std::string& source) {
  const std::vector<GpuGroup>& all = cluster.groups;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      if (all[i].profile.name != all[j].profile.name) continue;
      require(all[i].price == all[j].price, source, ": groups ", j + 1, " and ", i + 1,
              " contradict each other: ", all[i].gpu, " has the prices ", all[j].price, " and ",
              all[i].price);
      const bool same = all[i].per_node == all[j].per_node &&
                        all[i].profile.memory == all[j].profile.memory &&
                        all[i].network.port.bytes_per_s == all[j].network.port.bytes_per_s &&
                        all[i].profile.node.bytes_per_s == all[j].profile.node.bytes_per_s;
      require(!same, source, ": groups ", j + 1, " and ", i + 1,
              " are of the same nodes; make them ",
              "one with \"nodes\": ", all[i].nodes + all[j].nodes);
    }
}

}  // namespace

int Cluster::gpus() const {
  int sum = 0;
  for (const GpuGroup& group : groups) sum += group.gpus();
  return sum;
}

double Cluster::price() const {
  double sum = 0;
  for (const GpuGroup& group : groups) {
    if (group.price == 0) return 0;
    sum += group.price * group.gpus();
  }
  return sum;
}

double Cluster::watts() const {
  double sum = 0;
  for (const GpuGroup& group : groups) {
    if (group.profile.watts == 0) return 0;
    sum += group.profile.watts * group.gpus();
  }
  return sum;
}

std::string Cluster::describe() const {
  std::string text;
  for (const GpuGroup& group : groups) {
    text += fmt::format("{}{} {} of {}, {} node{}", text.empty() ? "" : " + ", group.gpus(),
                        group.profile.name, show_bytes(group.profile.memory), group.nodes,
                        group.nodes == 1 ? "" : "s");
    if (group.nodes > 1 || groups.size() > 1)
      text += fmt::format(", {:.0f} Gb/s a {}", group.network.port.bytes_per_s * bits / 1e9,
                          group.unit());
  }
  return text;
}

Cluster read_cluster(const std::string& text_or_file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(text_or_file, ignored)) return parse_text(text_or_file);
  return parse_cluster(text_of(text_or_file), text_or_file);
}

bool is_cluster_file(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  try {
    return parse_file(text_of(path)).find("groups") != nullptr;
  } catch (const Error&) {
    return false;
  }
}

Cluster parse_cluster(std::string_view json, const std::string& source) {
  Json all;
  try {
    all = parse_file(json);
  } catch (const Error& error) {
    throw Error(source + ": " + error.what());
  }
  Cluster cluster;
  int left = most_gpus;
  JsonReader reader(all, source);
  reader.each("groups", [&](JsonReader& group) {
    if (!group.check_object()) return;
    cluster.groups.push_back(read_group(group));
    const int gpus = cluster.groups.back().gpus();
    require(gpus <= left, source, " has more than ", most_gpus, " GPUs");
    left -= gpus;
  });
  require(!cluster.groups.empty(), source,
          " has no \"groups\": [{\"gpu\": \"H100-80\", \"nodes\": 8, \"per_node\": 8}]");
  reader.end();
  check_distinct(cluster, source);
  return cluster;
}

void set_price(Cluster& cluster, const std::string& price) {
  const std::size_t equals = price.rfind('=');
  const std::string amount = equals == std::string::npos ? price : price.substr(equals + 1);
  const auto value = parse_number<double>(amount);
  require(value && *value > 0 && *value < 1e9, "'", price,
          "' is no price of a GPU for an hour, such as 2.5 or H100=2.5");
  const std::string gpu = equals == std::string::npos ? "" : price.substr(0, equals);
  std::vector<cost::Profile> meant, all;
  for (const GpuGroup& group : cluster.groups) {
    const auto same = [&](const cost::Profile& each) { return each.name == group.profile.name; };
    if (std::none_of(all.begin(), all.end(), same)) all.push_back(group.profile);
    if (gpu == group.gpu) meant = {group.profile};  // as it was written, if a file
  }
  if (equals == std::string::npos) meant = all;
  if (meant.empty()) meant = cost::profiles_called(gpu, all);
  require(!meant.empty(), "'", price, "': the cluster has no ", gpu, "; it is ",
          cluster.describe());
  require(meant.size() == 1 || gpu.empty(), "'", price, "': the cluster has more than one ", gpu,
          ", such as ", meant.front().name, " and ", meant.back().name, "; name one");
  for (GpuGroup& group : cluster.groups)
    for (const cost::Profile& profile : meant)
      if (group.profile.name == profile.name) group.price = *value;
}

std::vector<std::string> calibration_doubts(const GpuGroup& group, const std::string& cpu) {
  const cost::Profile& profile = group.profile;
  std::vector<std::string> doubts;
  if (profile.grade == cost::Grade::data_sheet) return doubts;
  if (profile.ranks_per_node > 0 && profile.ranks_per_node != group.per_node)
    doubts.push_back(str(group.gpu, " was calibrated with ", profile.ranks_per_node,
                         profile.ranks_per_node == 1 ? " rank" : " ranks", " on a node, not ",
                         group.per_node, ": ranks of a node share its memory, power and links"));
  if (profile.is_cpu() && profile.name != cpu)
    doubts.push_back(str(group.gpu, " was calibrated on '", profile.name, "', this machine is '",
                         cpu, "': times are those of the former"));
  if (group.nodes > 1 && profile.across.bytes_per_s == 0)
    doubts.push_back(str(group.gpu,
                         " was calibrated on one node: what connects nodes is assumed "
                         "to carry ",
                         group.network.port.bytes_per_s / 1e9, " GB/s for each rank"));
  return doubts;
}

std::string name_of_this_cpu() {
  const std::string text = open_cpu()->describe();
  return text.substr(0, text.find(','));
}

}  // namespace trireme::layouts
