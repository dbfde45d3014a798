#include "runtime/train/device_choice.h"

#include "trireme/comm/agree.h"
#include "trireme/kernels/cuda.h"

namespace trireme {
namespace {

/// Why this rank has no GPU of its own among `gpus`; "" when it has.
std::string why_no_gpu_is_left(const Options& options, const MpiSession& session, int gpus) {
  const Index ranks = session.node_size(), most = gpus * options.ranks_per_gpu;
  if (session.node_rank() < most) return "";
  return str("this node has ", gpus, gpus == 1 ? " GPU" : " GPUs", " for ", ranks,
             " ranks; start at most ", most, " ranks a node, or share GPUs with --ranks-per-gpu ",
             (ranks + gpus - 1) / gpus, ", or use --device cpu");
}

}  // namespace

DeviceChoice choose_device(const Options& options, const MpiSession& session, const Host& host,
                           const std::string& module, Problems& problems) {
  DeviceChoice choice;
  choice.module = module;
  if (options.device == DeviceOption::cpu) return choice;
  std::string none;
  const int gpus = count_gpus({0, module}, none);
  // A rank without a GPU keeps all others from theirs: say which, and why.
  const std::vector<std::string> reasons =
      gather_strings(host.world(), host.stream, gpus > 0 ? "" : none);
  for (std::size_t rank = 0; rank < reasons.size(); ++rank)
    if (!reasons[rank].empty()) {
      choice.reason = str(reasons.size() > 1 ? str("rank ", rank, ": ") : "", reasons[rank]);
      if (options.device == DeviceOption::cuda)
        problems.add("--device cuda: no GPU can be used: ", choice.reason,
                     "; use --device cpu, or auto");
      return choice;
    }
  choice.cuda = true;
  choice.gpu = session.node_rank() / static_cast<int>(options.ranks_per_gpu);
  if (const std::string wrong = why_no_gpu_is_left(options, session, gpus); !wrong.empty())
    problems.add("--device ", options.device == DeviceOption::cuda ? "cuda" : "auto", ": ", wrong);
  return choice;
}

}  // namespace trireme
