// run_rank: one rank of a job, from its options to the end of the program, whatever carries the
// job's ranks: run() starts them as processes, tests as threads too.
//
// Not installed; modules above may include it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

#include "trireme/job/run.h"

#include "runtime/job/program_options.h"
#include "runtime/observe/status_page.h"

namespace trireme {

class MpiSession;

namespace job {

/// A rank that its transport has started.
struct StartedRank {
  int rank = 0, ranks = 1;
  int node_rank = 0, node_ranks = 1;
  /// Collective: all ranks, in another shape each time.
  std::function<std::unique_ptr<Mesh>(const MeshShape&)> make_mesh;
  observe::StatusPage& page;  // status page of this rank
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  /// Called when the options are read, before the rank has threads.
  std::function<void(const Options&)> begin = [](const Options&) {};
  /// The signal that asks this rank to stop; empty: none.
  std::function<std::string_view()> signal = [] { return std::string_view(); };
};

/// What a rank needs until its failure is reported, in order of creation.
struct RankResources {
  std::unique_ptr<Mesh> mesh;
  // It is null if the CPU trains.
  std::unique_ptr<Device> gpu;
  std::unique_ptr<Stream> gpu_stream;
  std::unique_ptr<Mesh> gpu_mesh;
};

/// Returns the rank that this process is. `session` outlives it.
StartedRank started_by(MpiSession& session, observe::StatusPage& page);

/// Collective. `resources` outlive what is thrown. Returns the exit code.
int run_rank(const StartedRank& rank, const Program& program, RankResources& resources);

}  // namespace job
}  // namespace trireme
