// The messages of the emulated NCCL, as requests of MPI.
#include <cstring>
#include <limits>

#include "tests/cuda_emulation/nccl_state.h"

namespace trireme::emulation {
namespace {

constexpr std::size_t of_a_send = std::numeric_limits<std::size_t>::max();

int mpi_count(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    report("messages of more than 2 GiB are not emulated");
    std::abort();
  }
  return static_cast<int>(bytes);
}

}  // namespace

Requests::~Requests() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  bool pending = false;
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
    pending = true;
  }
  if (!pending) return;
  for (auto& memory : memory_) memory.release();  // NOLINT: MPI may still write to it
}

void Requests::send(const void* data, std::size_t bytes, int world_rank, int tag, Send kind) {
  const auto* begin = static_cast<const std::byte*>(data);
  memory_.push_back(std::make_unique<std::vector<std::byte>>(begin, begin + bytes));
  receive_bytes_.push_back(of_a_send);
  requests_.push_back(MPI_REQUEST_NULL);
  const auto call = kind == Send::buffered ? MPI_Isend : MPI_Issend;
  call(memory_.back()->data(), mpi_count(bytes), MPI_BYTE, world_rank, tag, MPI_COMM_WORLD,
       &requests_.back());
}

const std::byte* Requests::receive(std::size_t bytes, int world_rank, int tag) {
  memory_.push_back(std::make_unique<std::vector<std::byte>>(bytes));
  receive_bytes_.push_back(bytes);
  requests_.push_back(MPI_REQUEST_NULL);
  MPI_Irecv(memory_.back()->data(), mpi_count(bytes), MPI_BYTE, world_rank, tag, MPI_COMM_WORLD,
            &requests_.back());
  return memory_.back()->data();
}

bool Requests::all_done() {
  bool all = true;
  for (std::size_t r = 0; r < requests_.size(); ++r) {
    if (requests_[r] == MPI_REQUEST_NULL) continue;
    int done = 0, got = 0;
    MPI_Status status;
    const int code = MPI_Test(&requests_[r], &done, &status);
    if (code != MPI_SUCCESS) {
      failed_ = true;  // the message is longer than its receive
      requests_[r] = MPI_REQUEST_NULL;
    } else if (done != 0 && receive_bytes_[r] != of_a_send) {
      MPI_Get_count(&status, MPI_BYTE, &got);
      failed_ |= static_cast<std::size_t>(got) != receive_bytes_[r];
    }
    all = all && requests_[r] == MPI_REQUEST_NULL;
  }
  return all;
}

}  // namespace trireme::emulation
