// Implements mpi_session.h. The only code that starts MPI; the environment decides whether it does.
#include "runtime/comm/mpi/mpi_session.h"

#include <cstdlib>
#include <exception>

#include <sched.h>

#include "runtime/comm/mpi/mpi_mesh.h"
#include "runtime/comm/self.h"

namespace trireme {
namespace comm {
namespace {

/// mpirun (Open MPI), a PMIx server (srun) or Hydra has started this process.
bool started_by_launcher() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(variable)) return true;
  return false;
}

std::string processor_name() {
  char name[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  check(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
  return name;
}

/// Collective over the node. Ranks may be bound to a core each, so the cores of all are counted
/// together.
bool fewer_cores_than_ranks(const MpiComm& node) {
  cpu_set_t mine, all;
  CPU_ZERO(&mine);
  if (::sched_getaffinity(0, sizeof(mine), &mine) != 0) CPU_ZERO(&mine);
  check(MPI_Allreduce(&mine, &all, sizeof(mine), MPI_BYTE, MPI_BOR, node.get()), "MPI_Allreduce");
  return CPU_COUNT(&all) < node.size();
}

MpiComm copy_of_world() {
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
  return MpiComm(copy);
}

MpiComm ranks_of_node(const MpiComm& world) {
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(world.get(), MPI_COMM_TYPE_SHARED, world.rank(), MPI_INFO_NULL, &node),
        "MPI_Comm_split_type");
  return MpiComm(node);
}

}  // namespace
}  // namespace comm

std::optional<LaunchedRank> launched_rank() {
  if (!comm::started_by_launcher()) return LaunchedRank{};
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* ranks = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (rank == nullptr || ranks == nullptr) return std::nullopt;
  return LaunchedRank{std::atoi(rank), std::atoi(ranks)};
}

struct MpiSession::State {
  bool initialized = false;
  int exceptions_at_start = std::uncaught_exceptions();
  comm::MpiJob job;
};

MpiSession::MpiSession(int& argc, char**& argv, observe::StatusPage* page)
    : state_(std::make_unique<State>()) {
  state_->job.page = page;
  if (!comm::started_by_launcher()) return;
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1",
           0);  // ranks share cores with each other or with neighbours
  int provided = 0;
  comm::check(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  state_->initialized = true;
  comm::check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
              "MPI_Comm_set_errhandler");
  require(provided >= MPI_THREAD_FUNNELED, "this MPI does not allow a process to have threads");
  comm::MpiJob& job = state_->job;
  job.world = comm::copy_of_world();
  job.end = std::make_unique<comm::JobEnd>(comm::copy_of_world());
  job.node = comm::ranks_of_node(job.world);
  job.rank = job.world.rank();
  job.size = job.world.size();
  job.node_ranks = job.node.gather(job.rank);
  job.node_name = comm::processor_name();
  job.cores_are_shared = comm::fewer_cores_than_ranks(job.node);
}

MpiSession::~MpiSession() {
  if (!state_->initialized) return;
  // MPI_Finalize waits for all ranks. They never arrive if this one has failed, or if they wait for
  // it.
  if (std::uncaught_exceptions() > state_->exceptions_at_start) MPI_Abort(MPI_COMM_WORLD, 1);
  try {
    state_->job.end->wait_for_all(state_->job.page);
  } catch (const Error&) {
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  state_->job = {};
  MPI_Finalize();
}

int MpiSession::rank() const { return state_->job.rank; }
int MpiSession::size() const { return state_->job.size; }
int MpiSession::node_size() const { return static_cast<int>(state_->job.node_ranks.size()); }

int MpiSession::node_rank() const {
  return state_->job.node.get() == MPI_COMM_NULL ? 0 : state_->job.node.rank();
}

std::unique_ptr<Mesh> MpiSession::make_mesh(const MeshShape& shape, const MpiOptions& options) {
  require(shape.size() == size(), "a mesh of ", shape.describe(), " cannot be made of ", size(),
          " ranks; start that many, or choose sizes whose product is ", size());
  observe::StatusPage* const page = state_->job.page;
  if (size() == 1) return page != nullptr ? comm::make_self_mesh(*page) : make_self_mesh();
  return std::make_unique<comm::MpiMesh>(state_->job, shape, options.timeout_s);
}

}  // namespace trireme
