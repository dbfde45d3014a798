// Questions and answers are messages without content. A rank enters the last barrier when all of
// its questions have been answered: when the barrier is complete, no message is in flight.
#include "runtime/comm/mpi/job_end.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace trireme::comm {
namespace {

constexpr int question_tag = 1, answer_tag = 2;

void sleep_us(long us) {
  const timespec time{0, us * 1000};
  ::nanosleep(&time, nullptr);
}

}  // namespace

JobEnd::JobEnd(MpiComm world)
    : world_(std::move(world)), states_(static_cast<std::size_t>(world_.size()), State::unknown) {}

bool JobEnd::has_ended(int rank) {
  State& state = states_[static_cast<std::size_t>(rank)];
  if (state == State::unknown) {
    send(rank, question_tag);
    state = State::asked;
    ++open_;
  }
  collect();
  return state == State::ended;
}

void JobEnd::wait_for_all(observe::StatusPage* page) {
  MPI_Request barrier = MPI_REQUEST_NULL;
  bool entered = false;
  int done = 0;
  for (long pause_us = 1; !done; pause_us = std::min(2 * pause_us, 1000L)) {
    answer();
    collect();
    if (!entered && open_ == 0) {
      check(MPI_Ibarrier(world_.get(), &barrier), "MPI_Ibarrier");
      entered = true;
    }
    if (entered) check(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (page != nullptr) page->heartbeat();
    if (!done) sleep_us(pause_us);
  }
}

void JobEnd::answer() {
  for (int rank; (rank = receive(question_tag)) >= 0;) send(rank, answer_tag);
}

void JobEnd::collect() {
  for (int rank; (rank = receive(answer_tag)) >= 0; --open_)
    states_[static_cast<std::size_t>(rank)] = State::ended;
}

int JobEnd::receive(int tag) const {
  int found = 0;
  MPI_Status status;
  check(MPI_Iprobe(MPI_ANY_SOURCE, tag, world_.get(), &found, &status), "MPI_Iprobe");
  if (!found) return -1;
  check(MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, tag, world_.get(), MPI_STATUS_IGNORE),
        "MPI_Recv");
  return status.MPI_SOURCE;
}

void JobEnd::send(int rank, int tag) const {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(nullptr, 0, MPI_BYTE, rank, tag, world_.get(), &request), "MPI_Isend");
  check(MPI_Request_free(&request), "MPI_Request_free");
}

}  // namespace trireme::comm
