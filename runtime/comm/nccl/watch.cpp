#include "runtime/comm/nccl/watch.h"

#include <algorithm>

#include "runtime/comm/nccl/nccl_communicator.h"
#include "runtime/comm/transport_mesh.h"

namespace trireme::nccl {

Watch::Watch(Mesh& host, Device& gpu, double timeout_s)
    : host_(nullptr), rank_(host.rank()), gpu_(gpu), timeout_s_(timeout_s) {
  if (auto* mesh = dynamic_cast<comm::TransportMesh*>(&host)) host_ = &mesh->progress();
  if (host_ != nullptr) host_->add(this);
  gpu_.while_waiting([this] {
    if (std::this_thread::get_id() != thread_) return;  // one that saves a checkpoint waits, too
    require(std::uncaught_exceptions() == 0 || !under_way(),
            "while an error is on its way nobody waits for what may never end");
    look();
  });
}

Watch::~Watch() {
  gpu_.while_waiting({});
  if (!left_.empty()) tell();
  // As one: all kernels are told to end before memory of the first group is freed, which waits for all of them.
  ncclGroupStart();
  for (Remains& group : left_) group.comm.abort();
  ncclGroupEnd();
  left_.clear();
  if (host_ != nullptr) host_->remove(this);
}

bool Watch::under_way() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](NcclCommunicator* group) { return group->under_way(); });
}

bool Watch::poll() {
  look();
  return false;
}

void Watch::look() {
  if (looking_) return;  // a group that looks at its host group moves all on, and comes here again
  require(failure_.empty(), failure_);
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + between_looks;
  looking_ = true;
  guard([&] {
    for (NcclCommunicator* group : groups_) group->look(now);
  });
  looking_ = false;
}

void Watch::give_up(const std::string& why) {
  if (failed()) return;
  failure_ = why;
  looking_ = false;
  tell();
}

void Watch::leave(Remains group) {
  if (!failed()) failure_ = str("an error on rank ", rank_);
  left_.push_back(std::move(group));
}

void Watch::tell() {
  if (host_ == nullptr) return;
  try {
    host_->poll();  // comes here, finds the failure, and lets every group of the host give up
  } catch (const std::exception&) {
    return;  // it is on its way already
  }
}

}  // namespace trireme::nccl
