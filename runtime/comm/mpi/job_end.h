// JobEnd: how ranks learn that another one has ended its part of the job and will communicate no
// more. Only a wait that lasts asks, and each rank asks each other one at most once; a rank answers
// from the moment at which it has ended.
#pragma once

#include <vector>

#include "runtime/comm/mpi/mpi_calls.h"

namespace trireme::comm {

class JobEnd {
 public:
  /// `world`: of its own, since MPI takes the tags of a communicator's messages for making others
  /// of it.
  explicit JobEnd(MpiComm world);
  JobEnd(const JobEnd&) = delete;
  JobEnd& operator=(const JobEnd&) = delete;

  /// Asks the rank, unless that is done. True once its answer has come. Never blocks.
  bool has_ended(int rank);
  /// Collective. Answers the others until all ranks are here.
  void wait_for_all();

 private:
  enum class State : char { unknown, asked, ended };
  void answer();
  void collect();
  /// Who has sent a message that has arrived; -1 when there is none.
  int receive(int tag) const;
  void send(int rank, int tag) const;

  MpiComm world_;
  std::vector<State> states_;  // by rank
  int open_ = 0;               // questions without an answer
};

}  // namespace trireme::comm
