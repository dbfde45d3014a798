#include "runtime/comm/nccl/watchdog.h"

#include <algorithm>

#include "runtime/comm/nccl/nccl_communicator.h"
#include "runtime/comm/transport_mesh.h"

namespace trireme::nccl {

Watchdog::Watchdog(Mesh& host, Device& gpu, double timeout_s)
    : host_(nullptr),
      page_(comm::page_of(host, no_page_)),
      rank_(host.rank()),
      gpu_(gpu),
      timeout_s_(timeout_s) {
  if (auto* mesh = dynamic_cast<comm::TransportMesh*>(&host)) host_ = &mesh->progress();
  if (host_ != nullptr) host_->add(this);
  gpu_.while_waiting([this] {
    if (std::this_thread::get_id() != thread_) return;  // the thread that saves a checkpoint
    require(std::uncaught_exceptions() == 0 || !in_flight(),
            "an error is being reported, so the host must not wait for work that may never end");
    heartbeat();
    poll_groups();
  });
}

Watchdog::~Watchdog() {
  gpu_.while_waiting({});
  if (!abandoned_.empty()) notify();
  // As one NCCL group: freeing memory of the first group waits for the kernels of all.
  ncclGroupStart();
  for (AbandonedGroup& group : abandoned_) group.comm.abort();
  ncclGroupEnd();
  abandoned_.clear();
  if (host_ != nullptr) host_->remove(this);
}

bool Watchdog::in_flight() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](NcclCommunicator* group) { return group->in_flight(); });
}

bool Watchdog::poll() {
  poll_groups();
  return false;
}

void Watchdog::poll_groups() {
  if (polling_) return;  // polling a host group calls poll() of this object again
  require(failure_.empty(), failure_);
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + poll_interval;
  polling_ = true;
  guard([&] {
    for (NcclCommunicator* group : groups_) group->poll(now);
  });
  polling_ = false;
}

void Watchdog::fail(const std::string& why) {
  if (failed()) return;
  failure_ = why;
  polling_ = false;
  notify();
}

void Watchdog::abandon(AbandonedGroup group) {
  if (!failed()) failure_ = str("an error on rank ", rank_);
  abandoned_.push_back(std::move(group));
}

void Watchdog::notify() {
  if (host_ == nullptr) return;
  try {
    host_->poll();  // calls poll() of this object, whose error fails every group of the host
  } catch (const std::exception&) {
    return;  // it is being reported already
  }
}

}  // namespace trireme::nccl
