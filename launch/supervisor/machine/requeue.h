// --requeue-self: a Slurm job that was stopped and saved is queued again.
#pragma once

#include <string>

namespace trireme::supervisor {

/// Whether Slurm queues a job again that ends with `exit_code`: RequeueExit of `scontrol show
/// config`, such as "RequeueExit = 75,130-134".
bool slurm_requeues(const std::string& config, int exit_code);

/// Queues the job again unless Slurm will, which ends this process. Returns what it did, or what
/// went wrong, for people.
std::string requeue_slurm_job(const std::string& job, int exit_code);

}  // namespace trireme::supervisor
