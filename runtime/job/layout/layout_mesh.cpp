#include <cstdlib>

#include "trireme/kernels/device.h"

#include "runtime/job/layout/plan_layout.h"

namespace trireme {
namespace {

/// Collectives have one member.
class LayoutMesh final : public Mesh {
 public:
  LayoutMesh(const MeshShape& shape, const DeviceTraits& device)
      : shape_(shape), device_(device), self_(make_self_mesh()) {}
  const DeviceTraits& device() const { return device_; }
  const MeshShape& shape() const override { return shape_; }
  int rank() const override { return 0; }
  Communicator& axis(Axis axis) override { return self_->axis(axis); }
  Communicator& world() override { return self_->world(); }
  std::unique_ptr<Communicator> split(int color, const std::string& name) override {
    return self_->split(color, name);
  }
  Buffer allocate(Index bytes) override { return self_->allocate(bytes); }
  std::string memory_description() const override { return self_->memory_description(); }
  [[noreturn]] void abort(int code) override { std::_Exit(code); }

 private:
  MeshShape shape_;
  DeviceTraits device_;
  std::unique_ptr<Mesh> self_;
};

const LayoutMesh* layout_mesh(const Context& context) {
  return dynamic_cast<const LayoutMesh*>(&context.mesh());
}

}  // namespace

bool only_checks_layout(const Context& context) { return layout_mesh(context) != nullptr; }

DeviceTraits planned_device(const Context& context) {
  const LayoutMesh* mesh = layout_mesh(context);
  return mesh == nullptr ? context.device().traits() : mesh->device();
}

namespace job {

CommandLine::Outcome read_layout_options(const Program& program, Index ranks, LayoutOptions& read,
                                         Problems& problems) {
  const std::unique_ptr<Mesh> self = make_self_mesh();
  return read_options(program.argc, program.argv, program.application, read.command, read.options,
                      *self, {ranks, 0}, read.facts, problems);
}

std::optional<LayoutChecked> plan_layout(const Program& program, const LayoutOptions& read,
                                         const MeshShape& shape,
                                         const std::optional<DeviceTraits>& device) {
  const std::unique_ptr<Device> cpu = open_cpu({static_cast<int>(read.options.threads_per_rank)});
  const std::unique_ptr<Stream> stream = cpu->make_stream();
  LayoutMesh mesh(shape, device.value_or(cpu->traits()));
  const Log log(0, LogLevel::quiet);
  Context context(read.options, mesh, *stream, log, read.command.configuration());
  try {
    program.f(context);
  } catch (const LayoutChecked& checked) {
    return checked;
  }
  return std::nullopt;
}

}  // namespace job
}  // namespace trireme
