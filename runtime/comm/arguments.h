// What every transport requires of the arguments of an operation. Throws: Error that names the
// group, the argument and what would be right.
#pragma once

#include <span>

#include "runtime/comm/node/node_state.h"

namespace trireme::comm::arguments {

/// These return `parts`, or equal parts where all counts are the same.
Parts check_reduce_scatter(const Communicator& group, Elements in, Elements out, Parts parts);
Parts check_all_gather(const Communicator& group, Elements in, Elements out, Parts parts);
void check_root(const Communicator& group, int root);
void check_messages(const Communicator& group, std::span<const Message> messages);
void check_reduction(const Communicator& group, Collective collective, DType dtype,
                     Reduction reduction);

}  // namespace trireme::comm::arguments
