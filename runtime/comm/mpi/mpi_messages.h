// Messages over MPI point-to-point calls.
#pragma once

#include "runtime/comm/messages.h"
#include "runtime/comm/mpi/mpi_calls.h"

namespace trireme::comm {

class MpiMessages final : public Messages {
 public:
  /// `comm` has the ranks of the group, in their order.
  explicit MpiMessages(MpiComm comm) : comm_(std::move(comm)) {}
  std::unique_ptr<MessageBatch> make_batch(Channel channel) override;

 private:
  MpiComm comm_;
};

}  // namespace trireme::comm
