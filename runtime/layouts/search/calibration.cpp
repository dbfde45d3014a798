#include "runtime/layouts/search/calibration.h"

#include "trireme/core/error.h"
#include "trireme/kernels/device.h"

namespace trireme::layouts {

std::vector<std::string> calibration_doubts(const GpuGroup& group, const std::string& cpu) {
  const cost::Profile& profile = group.profile;
  std::vector<std::string> doubts;
  if (profile.grade == cost::Grade::data_sheet) return doubts;
  if (profile.ranks_per_node > 0 && profile.ranks_per_node != group.per_node)
    doubts.push_back(str(group.gpu, " was calibrated with ", profile.ranks_per_node,
                         profile.ranks_per_node == 1 ? " rank" : " ranks", " on a node, not ",
                         group.per_node, ": ranks of a node share its memory, power and links"));
  if (profile.is_cpu() && profile.name != cpu)
    doubts.push_back(str(group.gpu, " was calibrated on '", profile.name, "', this machine is '",
                         cpu, "': times are those of the former"));
  if (group.nodes > 1 && profile.across.bytes_per_s == 0)
    doubts.push_back(str(group.gpu,
                         " was calibrated on one node: what connects nodes is assumed "
                         "to carry ",
                         group.network.port.bytes_per_s / 1e9, " GB/s for each rank"));
  return doubts;
}

std::string name_of_this_cpu() {
  const std::string text = open_cpu()->describe();
  return text.substr(0, text.find(','));
}

}  // namespace trireme::layouts
