// trireme_preflight: one rank on each node, started by `trireme preflight`. Prints one line of JSON
// behind a mark, in which the command finds it among what else is printed.
#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <limits.h>
#include <unistd.h>

#include "trireme/comm/agree.h"
#include "trireme/kernels/device.h"
#include "trireme/options/command_line.h"

#include "launch/preflight/judge.h"
#include "launch/preflight/mark.h"
#include "launch/preflight/node_checks.h"
#include "launch/preflight/pair_checks.h"
#include "runtime/comm/mpi/mpi_session.h"
#include "runtime/core/process/process_start.h"

namespace trireme::preflight {
namespace {

struct Given {
  Checks checks;
  bool twice = false;
  std::string names;
};

void declare(CommandLine& command, Given& given) {
  command.flag("--long", given.checks.thorough, "the long preflight");
  command.flag("--twice", given.twice, "measure every node twice");
  command.real("--seconds", given.checks.steady_s, {0, 3600}, "of products, in the long one");
  command.text("--run-dir", given.checks.run_dir, "DIR", "to be written to");
  command.text("--names", given.names, "A,B,...", "of the nodes, by rank");
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  ::gethostname(name, HOST_NAME_MAX);
  return name;
}

/// Collective. Names of the nodes by rank, each once.
std::vector<std::string> names_of(const Host& host, const std::string& given) {
  std::vector<std::string> names;
  std::istringstream in(given);
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  std::vector<std::string> found = gather_strings(host, host_name());
  if (names.size() == found.size()) return names;
  std::set<std::string> known;
  for (std::size_t rank = 0; rank < found.size(); ++rank)
    if (!known.insert(found[rank]).second) found[rank] += fmt::format("-{}", rank);
  return found;
}

/// Collective. On rank 0 what all ranks have measured.
Report gather(const Host& host, const std::vector<Node>& nodes, const std::vector<Pair>& pairs) {
  Report all;
  for (const std::string& text : gather_strings(host, to_text(to_json(Report{nodes, pairs})))) {
    if (host.rank() != 0) continue;
    Report one = report_of(parse_json(text));
    all.nodes.insert(all.nodes.end(), one.nodes.begin(), one.nodes.end());
    all.pairs.insert(all.pairs.end(), one.pairs.begin(), one.pairs.end());
  }
  return all;
}

/// Collective. What rank 0 suspects, on all ranks.
Suspects agree_on_suspects(const Host& host, const Report& first, bool all_nodes) {
  Suspects mine;
  if (host.rank() == 0) mine = suspects(slow_ones(first, nullptr));
  // A node may be named in place of its links, which one disturbance can have slowed.
  for (const Pair& pair : first.pairs)
    if (mine.nodes.contains(pair.from) || mine.nodes.contains(pair.to))
      mine.links.insert({pair.from, pair.to});
  if (host.rank() == 0 && all_nodes)
    for (const Node& node : first.nodes) mine.nodes.insert(node.host);
  if (host.rank() == 0 && all_nodes)
    for (const Pair& pair : first.pairs) mine.links.insert({pair.from, pair.to});
  Report carried;
  for (const std::string& name : mine.nodes) {
    carried.nodes.emplace_back();
    carried.nodes.back().host = name;
  }
  for (const auto& [from, to] : mine.links) carried.pairs.push_back({from, to});
  const std::string text = broadcast_text(host, to_text(to_json(carried)));
  Suspects found;
  const Report read = report_of(parse_json(text));
  for (const Node& node : read.nodes) found.nodes.insert(node.host);
  for (const Pair& pair : read.pairs) found.links.insert({pair.from, pair.to});
  return found;
}

void add_clocks(const std::vector<double>& offsets, Report& report) {
  constexpr double most_s = 1;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    report.nodes[i].figures["clock_offset_s"] = offsets[i];
    if (std::abs(offsets[i]) > most_s)
      report.nodes[i].warnings.push_back(
          fmt::format("its clock is {:.1f} s off that of {}", offsets[i], report.nodes[0].host));
  }
}

void check_all(const Host& host, const Given& given) {
  constexpr Index short_bytes = Index{1} << 20, long_bytes = Index{8} << 20;
  const Index bytes = given.checks.thorough ? long_bytes : short_bytes;
  const std::vector<std::string> hosts = names_of(host, given.names);
  const std::string& own = hosts[static_cast<std::size_t>(host.rank())];
  Node node = check_node(own, given.checks);
  const std::vector<double> offsets = clock_offsets(host);
  Report report = gather(host, {node}, measure_pairs(host, hosts, bytes));
  const Suspects again = agree_on_suspects(host, report, given.twice);
  if (!again.nodes.empty() || !again.links.empty()) {
    std::vector<Node> mine;
    if (again.nodes.contains(own)) {
      node.faults.clear();
      node.warnings.clear();
      measure_speed(node, given.checks);
      mine.push_back(node);
    }
    const std::vector<Pair> links = measure_again(host, hosts, again.links, bytes);
    report = better_of(report, gather(host, mine, links));
  }
  if (host.rank() != 0) return;
  add_clocks(offsets, report);
  fmt::print("\n{}{}\n", mark, to_text(to_json(report)));
}

int run(int argc, char** argv) {
  prepare_process();
  MpiSession session(argc, argv);
  Given given;
  CommandLine command("trireme_preflight", "One rank on each node; started by trireme preflight.");
  declare(command, given);
  Problems problems;
  const CommandLine::Outcome outcome = command.parse(argc, argv, problems);
  if (session.rank() == 0) {
    if (outcome != CommandLine::Outcome::run) std::cout << command.text_of(outcome);
    for (const std::string& problem : problems.all())
      std::cerr << "trireme_preflight: " << problem << '\n';
  }
  if (!problems.empty()) return static_cast<int>(ExitCode::configuration);
  if (outcome != CommandLine::Outcome::run) return 0;
  const std::unique_ptr<Mesh> mesh = session.make_mesh(MeshShape(session.size(), 1, 1));
  const std::unique_ptr<Device> cpu = open_cpu();
  const std::unique_ptr<Stream> stream = cpu->make_stream();
  try {
    check_all({*mesh, *stream}, given);
  } catch (const std::exception& error) {
    fmt::print(stderr, "trireme_preflight[rank {}] error: {}\n", session.rank(), error.what());
    std::fflush(nullptr);
    if (session.size() > 1) mesh->abort(static_cast<int>(ExitCode::failure));
    return static_cast<int>(ExitCode::failure);
  }
  return 0;
}

}  // namespace
}  // namespace trireme::preflight

int main(int argc, char** argv) {
  try {
    return trireme::preflight::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "trireme_preflight: {}\n", error.what());
    return static_cast<int>(trireme::ExitCode::failure);
  }
}
