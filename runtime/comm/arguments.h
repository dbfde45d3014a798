// What every transport requires of the arguments of an operation. Throws: Error that names the
// group, the argument and what would be right.
#pragma once

#include <span>

#include "runtime/comm/node/node_state.h"

namespace trireme::comm::arguments {

void check_reduce_scatter(const Communicator& group, Elements in, Elements out);
void check_all_gather(const Communicator& group, Elements in, Elements out);
void check_root(const Communicator& group, int root);
void check_messages(const Communicator& group, std::span<const Message> messages);
void check_reduction(const Communicator& group, Collective collective, DType dtype,
                     Reduction reduction);

}  // namespace trireme::comm::arguments
