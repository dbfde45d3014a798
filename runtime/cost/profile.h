// Profile: what is known of a type of GPU (or of a CPU rank): rates, latencies, and how well they
// are known; in files, and those that are installed with the program.
//
// Not installed; modules above may include it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/device_traits.h"
#include "trireme/graph/work.h"

namespace trireme::cost {

/// How well the numbers are known, worst first.
enum class Grade {
  data_sheet,  // data sheets and publications
  calibrated,  // measured by trireme plan --calibrate
  shapes,      // ... with the products of this model
  tried,       // the layouts themselves ran some steps
};
/// "data sheet", "calibrated", "calibrated with the model's shapes", "tried".
const char* name(Grade grade);

/// A message of b bytes takes latency + b / bytes_per_s.
struct Link {
  double latency = 0;      // s
  double bytes_per_s = 0;  // per rank, in one direction; 0: no such link
};

/// A collective that was measured: each of its ring steps takes latency, its bus moves bytes_per_s.
struct MeasuredCollective {
  CollectiveWork::Kind kind = CollectiveWork::Kind::all_reduce;
  bool across = false;  // ranks on different nodes
  int ranks = 0;
  Link link;
};

/// A kind of product that was measured, "NT", "NN" or "TN": how its matrices lie (BLAS).
struct MeasuredProduct {
  Index m = 0, n = 0, k = 0;
  DType dtype = DType::f32;
  double flops_per_s = 0;
  std::string kind = "NT";
};

/// Causal attention that was measured, with the masked half not counted.
struct MeasuredAttention {
  Index sequence = 0, head_dim = 0;
  bool backward = false;
  DType dtype = DType::f32;
  double flops_per_s = 0;
};

/// An op that loops over memory, by its name; or work of a step that is no op, such as "update".
struct MeasuredLoop {
  std::string op;
  bool backward = false;
  double bytes_per_s = 0;
};

struct Profile {
  std::string name;                // "H100-SXM"
  std::vector<std::string> names;  // what else it is called
  Grade grade = Grade::data_sheet;
  int compared_runs = 0;   // published runs on this GPU that times were compared with
  std::string cannot_run;  // why no job of this program runs on it; empty: jobs may run
  DeviceTraits device;
  Index memory = 0;  // bytes of the device that a rank may use
  /// Half the width of the error bar, relative to the time: 0.16.
  double spread = 0;

  double watts = 0;  // power of the device at its limit; 0: not known

  // Products.
  double peak_bf16 = 0, peak_f32 = 0;  // FLOP/s
  /// Where nothing is measured, a product runs at efficiency * peak * k / (k + half_k).
  double efficiency = 0, half_k = 0;
  std::vector<MeasuredProduct> products;
  // Shares of the peak in the type of the op; causal, with the masked half not counted.
  double attention_forward = 0, attention_backward = 0;
  std::vector<MeasuredAttention> attentions;  // where measured, they replace these shares

  double bytes_per_s = 0;           // that memory-bound ops reach
  std::vector<MeasuredLoop> loops;  // where measured, they replace it
  double op_seconds = 0;  // time of the host to queue a kernel; of a CPU rank, what any op costs
  /// The device computes beside the host, which then is a floor only. False for CPU ranks.
  bool queues = true;

  Link node;    // between ranks of a node; 0: not known
  Link across;  // between ranks of different nodes; 0: that of the cluster
  std::vector<MeasuredCollective> collectives;  // where measured, they replace these two
  double port_efficiency = 1;                   // what collectives reach of Network::port
  double collective_seconds = 0;                // that any collective takes, however small
  double contention = 0;  // time that a second of hidden traffic adds to the work that hides it

  Index context_bytes = 0;       // device memory before any allocation (CUDA)
  Index communicator_bytes = 0;  // device memory for a communicator (NCCL)
  int ranks_per_node = 0;        // that measured together; 0: not known

  double peak(DType dtype) const { return dtype == DType::bf16 ? peak_bf16 : peak_f32; }
  /// Bytes a second that an op reaches where it loops over memory.
  double loop_rate(std::string_view op, bool backward) const;
  bool is_cpu() const { return device.kind == DeviceKind::cpu; }
};

// Profiles in files, and those that are installed with the program.

/// `source`: for messages, such as the name of the file. Throws: Error that names source, field,
/// value and what would be right.
Profile parse_profile(std::string_view text, const std::string& source);
Profile read_profile(const std::filesystem::path& file);
/// The text of such a file, a member a line. `when`: for people.
std::string text_of(const Profile& profile, const std::string& when);

/// The profiles of data sheets, by name: "A100-40GB", "A100-80GB", "B200", ...
std::vector<std::string> known_profiles();
/// The one of `among` that people mean by `name`: by what it is called, or by some of the words of
/// its names, in any case and with any separators: "h100", "4090", "A100-80", "NVIDIA H100 PCIe".
/// More than one where it may mean several, none where it is unknown.
std::vector<Profile> profiles_called(std::string_view name, const std::vector<Profile>& among);
/// Whether that is one of the data sheets, or several.
bool is_known_gpu(std::string_view name);
/// Whether there are data sheets of the same family: "RTX 5080" is of that of RTX-5090.
bool is_of_known_family(std::string_view name);
/// Returns the profile of a data sheet. Throws: Error that lists those that the name may mean, or
/// all, and those of its family.
Profile known_profile(std::string_view name);
/// Returns the profile of a GPU in use: of those with its capability and multiprocessors the one
/// with the least memory that is not less than `free` bytes, which are free on it. Throws: Error
/// that lists known_profiles().
Profile known_profile(const DeviceTraits& gpu, Index free);

/// runtime/cost/profiles/*.json.
std::vector<std::string_view> texts_of_known_profiles();

}  // namespace trireme::cost
