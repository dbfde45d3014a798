#include "runtime/comm/self.h"

#include "runtime/comm/arguments.h"
#include "runtime/comm/page_of.h"

namespace trireme::comm {
namespace {

class SelfMesh : public Mesh {
 public:
  SelfMesh() {
    for (const auto& [axis, size] : shape_.axes()) axes_.emplace_back(name(axis));
  }
  const MeshShape& shape() const override { return shape_; }
  int rank() const override { return 0; }
  Communicator& axis(Axis axis) override { return axes_[shape_.index(axis)]; }
  Communicator& world() override { return world_; }
  std::unique_ptr<Communicator> split(int color, const std::string& name) override {
    return color < 0 ? nullptr : std::make_unique<SelfCommunicator>(name);
  }
  Buffer allocate(Index bytes) override { return allocate_host(bytes); }
  std::string memory_description() const override { return "memory of one rank"; }
  [[noreturn]] void abort(int code) override { std::_Exit(code); }

 private:
  MeshShape shape_{1, 1, 1};
  SelfCommunicator world_{"world"};
  std::vector<SelfCommunicator> axes_;
};

class SelfMeshWithPage final : public SelfMesh, public HasStatusPage {
 public:
  explicit SelfMeshWithPage(observe::StatusPage& page) : page_(page) {}
  observe::StatusPage& page() override { return page_; }

 private:
  observe::StatusPage& page_;
};

void copy(Elements in, Elements out, Stream& stream) {
  if (in.data != out.data && in.count > 0)
    stream.copy(out.data, in.data, in.count * size_bytes(in.dtype));
}

}  // namespace

Ticket SelfCommunicator::start_all_reduce(Elements, Reduction, Stream&) { return {}; }

Ticket SelfCommunicator::start_reduce_scatter(Elements in, Elements out, Reduction, Stream& stream,
                                              Parts parts) {
  arguments::check_reduce_scatter(*this, in, out, parts);
  return copy(in, out, stream), Ticket{};
}

Ticket SelfCommunicator::start_all_gather(Elements in, Elements out, Stream& stream, Parts parts) {
  arguments::check_all_gather(*this, in, out, parts);
  return copy(in, out, stream), Ticket{};
}

Ticket SelfCommunicator::start_broadcast(Elements, int root, Stream&) {
  require(root == 0, name_, " group: no rank ", root, " to broadcast from; it has 1");
  return {};
}

Ticket SelfCommunicator::start_exchange(std::span<const Message> sends,
                                        std::span<const Message> receives, Stream& stream) {
  require(sends.size() == receives.size(), name_, " group: ", sends.size(), " sends and ",
          receives.size(), " receives with oneself");
  for (std::size_t i = 0; i < sends.size(); ++i) {
    require(sends[i].peer == 0 && receives[i].peer == 0, name_, " group: a message with rank ",
            sends[i].peer == 0 ? receives[i].peer : sends[i].peer, "; it has only rank 0");
    require(sends[i].bytes == receives[i].bytes, name_, " group: message ", i, " sends ",
            sends[i].bytes, " bytes but receives ", receives[i].bytes);
    if (sends[i].bytes > 0) stream.copy(receives[i].data, sends[i].data, sends[i].bytes);
  }
  return {};
}

std::unique_ptr<Mesh> make_self_mesh(observe::StatusPage& page) {
  return std::make_unique<SelfMeshWithPage>(page);
}

}  // namespace trireme::comm

std::unique_ptr<trireme::Mesh> trireme::make_self_mesh() {
  return std::make_unique<comm::SelfMesh>();
}
