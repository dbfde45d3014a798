// The file replicas.jsonl of the --save directory: what ranks held or computed when bits differed.
#pragma once

#include <string>

#include "trireme/job/run.h"

#include "runtime/train/numerics/replica_votes.h"

namespace trireme::train {

/// Of the supervisor that started this job; 0: none did.
Index this_attempt();

/// Its newest records. Empty where there is no --save directory, or no file. Throws: Error when it
/// cannot be read.
std::string read_records(const Context& context);
/// On rank 0. Where it cannot be written, a warning says why.
void append_record(const Context& context, const ReplicaRecord& record);

}  // namespace trireme::train
