// trireme_preflight: one rank on each node or, with --gpus, on each GPU; `trireme preflight` starts
// it. Prints one line of JSON behind a mark, by which the command finds it among what else is
// printed.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "trireme/comm/agree.h"
#include "trireme/kernels/device.h"
#include "trireme/options/command_line.h"

#include "kernels/cuda.h"
#include "launch/preflight/links.h"
#include "launch/preflight/measure.h"
#include "launch/preflight/node_checks.h"
#include "launch/preflight/report.h"
#include "runtime/comm/mpi/mpi_session.h"
#include "runtime/comm/nccl.h"
#include "runtime/core/process/this_machine.h"
#include "runtime/core/process/this_process.h"
#include "runtime/job/device_choice.h"

namespace trireme::preflight {
namespace {

struct Given {
  Checks checks;
  bool twice = false;
  Index gpus = 0;  // of each node; 0: nodes are checked
  std::string names;
};

void declare(CommandLine& command, Given& given) {
  command.flag("--long", given.checks.thorough, "the long preflight");
  command.flag("--twice", given.twice, "measure everything twice");
  command.whole("--gpus", given.gpus, at_least(1), "one rank for each of so many GPUs of a node");
  command.real("--seconds", given.checks.steady_s, {0, 3600}, "of products, in the long one");
  command.text("--run-dir", given.checks.run_dir, "DIR", "to be written to");
  command.text("--names", given.names, "A,B,...", "of the nodes, by rank");
}

/// Collective. Names of the nodes, each once; `ranks` on each.
std::vector<std::string> names_of(const Host& host, const std::string& given, int ranks) {
  std::vector<std::string> names;
  std::istringstream in(given);
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  const std::vector<std::string> of_ranks = gather_strings(host, host_name());
  std::vector<std::string> found;
  for (std::size_t rank = 0; rank < of_ranks.size(); rank += static_cast<std::size_t>(ranks))
    found.push_back(of_ranks[rank]);
  if (names.size() == found.size()) return names;
  std::set<std::string> known;
  for (std::size_t node = 0; node < found.size(); ++node)
    if (!known.insert(found[node]).second) found[node] += fmt::format("-{}", node);
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

void print_report(const Report& report) { fmt::print("\n{}{}\n", mark, to_text(to_json(report))); }

/// The command shows which checks have begun.
std::function<void(std::string_view)> announce(const std::string& name) {
  return [name](std::string_view check) {
    fmt::print("\n{}{}: {}\n", progress_mark, name, check);
    std::fflush(stdout);
  };
}

void check_nodes(const Host& host, const Given& given) {
  constexpr Index short_bytes = Index{1} << 20, long_bytes = Index{8} << 20;
  const std::vector<std::string> names = names_of(host, given.names, 1);
  const std::string& own = names[static_cast<std::size_t>(host.rank())];
  Checks checks = given.checks;
  checks.begins = announce(own);
  const Work work = {[&] { return check_node(own, checks); },
                     [&](Node& node) { measure_speed(node, checks); },
                     [&](int a, int b) {
                       checks.begins("links");
                       return measure_link(host, names, a, b,
                                           checks.thorough ? long_bytes : short_bytes);
                     },
                     {}};
  Report report = measure_all(host, names, work, given.twice);
  const std::vector<double> offsets = clock_offsets(host);
  if (host.rank() != 0) return;
  add_clocks(offsets, report);
  print_report(report);
}

/// One rank on each GPU; those of a node are neighbours.
void check_gpus_of_all(const Host& host, const Given& given) {
  const auto on_node = static_cast<int>(given.gpus);
  const std::vector<std::string> nodes = names_of(host, given.names, on_node);
  std::vector<std::string> names;
  for (const std::string& node : nodes)
    for (int gpu = 0; gpu < on_node; ++gpu) names.push_back(fmt::format("{}/gpu{}", node, gpu));
  const std::string& own = names[static_cast<std::size_t>(host.rank())];
  Checks checks = given.checks;
  checks.begins = announce(own);
  checks.begins("start of GPUs");
  const std::unique_ptr<Device> gpu = open_cuda({host.rank() % on_node, cuda_module()});
  const std::unique_ptr<Stream> stream = gpu->make_stream();
  const ProductSizes sizes = agree_on_sizes(host, *stream);
  NcclOptions options;
  options.module = cuda_module();
  std::unique_ptr<Mesh> connected;
  const Work work = {[&] { return check_gpu(own, *stream, checks, sizes); },
                     [&](Node& node) { measure_gpu(node, *stream, checks, sizes); },
                     {},
                     [&] {
                       checks.begins("NCCL");
                       if (!connected) connected = open_nccl_mesh(host.mesh, *gpu, options);
                       return measure_groups(host, *connected, *stream, nodes);
                     }};
  Report report = measure_all(host, names, work, given.twice);
  report.gpus.swap(report.nodes);
  if (host.rank() == 0) print_report(report);
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
  const int on_node = std::max(1, static_cast<int>(given.gpus));
  if (session.size() % on_node != 0) {
    std::cerr << "trireme_preflight: --gpus " << on_node << ": there are " << session.size()
              << " ranks\n";
    return static_cast<int>(ExitCode::configuration);
  }
  Options of_gpus;
  of_gpus.device = DeviceOption::cuda;
  if (given.gpus > 0) job::set_gpu_environment(of_gpus, session.rank(), session.size());
  const std::unique_ptr<Mesh> mesh =
      session.make_mesh(MeshShape(session.size() / on_node, 1, on_node));
  const std::unique_ptr<Device> cpu = open_cpu();
  const std::unique_ptr<Stream> stream = cpu->make_stream();
  try {
    (given.gpus > 0 ? check_gpus_of_all : check_nodes)({*mesh, *stream}, given);
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
    return trireme::exit_code_with_output(trireme::preflight::run(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "trireme_preflight: {}\n", error.what());
    return static_cast<int>(trireme::ExitCode::failure);
  }
}
