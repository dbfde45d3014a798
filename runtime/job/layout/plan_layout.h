// Runs a program without ranks until its Trainer has planned a layout.
//
// Private to job.
#pragma once

#include <functional>
#include <optional>

#include "runtime/job/layout/layout_mesh.h"
#include "runtime/job/program_options.h"

namespace trireme::job {

/// The options of a program for so many ranks, once they are checked.
struct LayoutOptions {
  StartFacts facts;
  Options options;
  CommandLine command;
  explicit LayoutOptions(const Application& application)
      : options(application.defaults), command(application.name, application.description) {}
};
CommandLine::Outcome read_layout_options(const Program& program, Index ranks, LayoutOptions& read,
                                         Problems& problems);

/// Runs the program on a mesh of the layout, whose ranks have `device`; without one, this machine's
/// CPU. Nothing: the program has no Trainer.
std::optional<LayoutChecked> plan_layout(const Program& program, const LayoutOptions& read,
                                         const MeshShape& shape,
                                         const std::optional<DeviceTraits>& device = {});

}  // namespace trireme::job
