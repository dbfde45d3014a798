// The cost of each collective, in shared memory (Mesh::allocate) and in ordinary memory, against
// MPI's of the same size.
//   mpirun -np 4 build/release/bin/collectives [largest MiB, default 16]
// Inputs are small integers, so every sum is exact: #wrong is 0, or there is a bug. Times are
// medians over repetitions of the slowest rank; "bus" is what the links carry (2(n-1)/n bytes for
// all_reduce, (n-1)/n otherwise), as in nccl-tests.
#define OMPI_SKIP_MPICXX 1
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "runtime/comm/mpi/mpi_session.h"
#include "tests/support/host_stream.h"

namespace trireme {
namespace {

struct Operation {
  const char* name;
  double bus_share;  // of the bytes, for n ranks: share * (n - 1) / n
  std::function<void(float*x, Index count)> ours, mpi;
  std::function<float(Index i)> expected;  // of element i after one call; < 0: unspecified
};

float input(int rank, Index i) { return static_cast<float>((i * 7 + rank * 13) % 101); }

float sum_of_inputs(int ranks, Index i) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += input(r, i);
  return sum;
}

/// Median over repetitions of the time that the slowest rank takes, in microseconds.
double median_us(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  constexpr double budget_s = 0.1;
  std::vector<double> times;
  call();
  const auto begun = Clock::now();
  for (int go_on = 1; go_on;) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = Clock::now();
    call();
    double mine = std::chrono::duration<double, std::micro>(Clock::now() - start).count(),
           slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    times.push_back(slowest);
    const double elapsed = std::chrono::duration<double>(Clock::now() - begun).count();
    go_on = times.size() < 5 || (elapsed < budget_s && times.size() < 500);
    MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

class Benchmark {
 public:
  explicit Benchmark(MpiSession& session)
      : mesh_(session.make_mesh(MeshShape(session.size(), 1, 1))), group_(mesh_->world()) {}

  int run(Index largest_bytes) {
    const Buffer shared = mesh_->allocate(largest_bytes);
    std::vector<float> ordinary(static_cast<std::size_t>(largest_bytes) / 4);
    auto* window = reinterpret_cast<float*>(shared.data());
    print("# {} ranks, {}\n", group_.size(), mesh_->memory_description());
    print("#{:>14} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>7} {:>7}\n", "operation",
          "size", "shared", "ordinary", "mpi", "shared", "ordinary", "mpi", "speedup", "#wrong");
    print("#{:>14} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>7} {:>7}\n", "", "(B)", "(us)",
          "(us)", "(us)", "(GB/s)", "(GB/s)", "(GB/s)", "", "");
    Index wrong = 0;
    for (const Operation& operation : operations())
      for (Index bytes = 1024; bytes <= largest_bytes; bytes *= 4)
        wrong +=
            measure(operation, bytes / 4 / group_.size() * group_.size(), window, ordinary.data());
    print("# {}\n", wrong == 0 ? "OK" : "FAILED");
    return wrong == 0 ? 0 : 1;
  }

 private:
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    if (group_.rank() == 0) fmt::print(format, std::forward<Args>(args)...);
  }

  Index wrong_after(const Operation& operation, Index count, float* x) {
    for (Index i = 0; i < count; ++i) x[i] = input(group_.rank(), i);
    operation.ours(x, count);
    Index wrong = 0;
    for (Index i = 0; i < count; ++i) {
      const float expected = operation.expected(i);
      wrong += expected >= 0 && x[i] != expected;
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return wrong;
  }

  Index measure(const Operation& operation, Index count, float* window, float* ordinary) {
    count_ = count;
    const Index wrong =
        wrong_after(operation, count, window) + wrong_after(operation, count, ordinary);
    std::fill(window, window + count, 0.0f);  // repeated sums stay finite
    std::fill(ordinary, ordinary + count, 0.0f);
    const double shared_us = median_us([&] { operation.ours(window, count); });
    const double ordinary_us = median_us([&] { operation.ours(ordinary, count); });
    const double mpi_us = median_us([&] { operation.mpi(ordinary, count); });
    const double n = group_.size();
    const double gigabytes_us =
        operation.bus_share * (n - 1) / n * static_cast<double>(count) * 4 / 1e3;
    print(
        " {:>14} {:>10} {:>10.1f} {:>10.1f} {:>10.1f} {:>9.2f} {:>9.2f} {:>9.2f} {:>7.2f} {:>7}\n",
        operation.name, count * 4, shared_us, ordinary_us, mpi_us, gigabytes_us / shared_us,
        gigabytes_us / ordinary_us, gigabytes_us / mpi_us, mpi_us / shared_us, wrong);
    return wrong;
  }

  std::vector<Operation> operations() {
    const int n = group_.size(), r = group_.rank();
    const auto all = [](float* x, Index count) { return Elements{x, count, DType::f32}; };
    const auto part = [n, r](float* x, Index count) {
      return Elements{x + r * (count / n), count / n, DType::f32};
    };
    return {
        {"all_reduce", 2,
         [=, this](float* x, Index c) { group_.all_reduce(all(x, c), Reduction::sum, stream_); },
         [](float* x, Index c) {
           MPI_Allreduce(MPI_IN_PLACE, x, static_cast<int>(c), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
         },
         [n](Index i) { return sum_of_inputs(n, i); }},
        {"reduce_scatter", 1,
         [=, this](float* x, Index c) {
           group_.reduce_scatter(all(x, c), part(x, c), Reduction::sum, stream_);
         },
         [n](float* x, Index c) {
           MPI_Reduce_scatter_block(MPI_IN_PLACE, x, static_cast<int>(c / n), MPI_FLOAT, MPI_SUM,
                                    MPI_COMM_WORLD);
         },
         [=, this](Index i) { return i / (count_ / n) == r ? sum_of_inputs(n, i) : -1; }},
        {"all_gather", 1,
         [=, this](float* x, Index c) { group_.all_gather(part(x, c), all(x, c), stream_); },
         [n](float* x, Index c) {
           MPI_Allgather(MPI_IN_PLACE, 0, MPI_FLOAT, x, static_cast<int>(c / n), MPI_FLOAT,
                         MPI_COMM_WORLD);
         },
         [=, this](Index i) { return input(static_cast<int>(i / (count_ / n)), i); }},
        {"broadcast", 1, [=, this](float* x, Index c) { group_.broadcast(all(x, c), 0, stream_); },
         [](float* x, Index c) { MPI_Bcast(x, static_cast<int>(c), MPI_FLOAT, 0, MPI_COMM_WORLD); },
         [](Index i) { return input(0, i); }},
    };
  }

  std::unique_ptr<Mesh> mesh_;
  Communicator& group_;
  HostStream stream_;
  Index count_ = 0;  // of the operation that is measured
};

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  trireme::MpiSession session(argc, argv);
  if (session.size() < 2) {
    fmt::print(stderr, "start it with mpirun on at least 2 ranks\n");
    return 64;
  }
  const trireme::Index largest_mib = argc > 1 ? std::atoi(argv[1]) : 16;
  return trireme::Benchmark(session).run(largest_mib << 20);
}
