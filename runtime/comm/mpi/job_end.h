// JobEnd: how ranks learn that another one has ended its part of the job and will not communicate
// any more. Only long waits ask, and each rank asks each other one at most once. A rank answers
// once it has ended.
#pragma once

#include <vector>

#include "runtime/comm/mpi/mpi_calls.h"
#include "runtime/observe/status_page.h"

namespace trireme::comm {

class JobEnd {
 public:
  /// `world`: a communicator of its own, because MPI uses message tags of a communicator when it
  /// derives others from it.
  explicit JobEnd(MpiComm world);
  JobEnd(const JobEnd&) = delete;
  JobEnd& operator=(const JobEnd&) = delete;

  /// Asks the rank, unless already done. True once its answer has arrived. Never blocks.
  bool has_ended(int rank);
  /// Collective. Answers the others until all ranks are here. `page`: of this rank, or null.
  void wait_for_all(observe::StatusPage* page);

 private:
  enum class State : char { unknown, asked, ended };
  void answer();
  void collect();
  /// The sender of a message that has arrived; -1 when there is none.
  int receive(int tag) const;
  void send(int rank, int tag) const;

  MpiComm world_;
  std::vector<State> states_;  // by rank
  int open_ = 0;               // questions without an answer
};

}  // namespace trireme::comm
