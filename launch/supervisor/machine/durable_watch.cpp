#include "launch/supervisor/machine/durable_watch.h"

#include <vector>

#include <sys/stat.h>

#include "launch/supervisor/machine/run_directory.h"
#include "runtime/store/steps.h"

namespace trireme::supervisor {
namespace {

constexpr double check_s = 2;

}  // namespace

Index DurableWatch::newest(double now) {
  struct stat info {};
  if (::stat(run_.c_str(), &info) != 0) return newest_;
  // A commit renames in the directory.
  const Index changed_ns = Index{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  if (changed_ns == changed_ns_ && now - checked_ < check_s) return newest_;
  changed_ns_ = changed_ns;
  checked_ = now;
  const std::vector<CommittedStep> steps = list_steps(run_);
  if (!steps.empty() && steps.front().step == newest_) return newest_;
  const std::vector<Index> durable = durable_steps(run_, 1);
  newest_ = durable.empty() ? 0 : durable.front();
  return newest_;
}

}  // namespace trireme::supervisor
