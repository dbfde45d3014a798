// Seconds of a step of published training runs, as the planner computes them. Started by
// published/score.py. Standard input, a line of JSON each: first the runs; then questions, each a
// set of hardware numbers and the positions of runs. Standard output: a line that says what the
// memory of each run was planned to be, then the seconds that each question asks for.
//
// The plan of a run is that of trireme for its layout. What its framework does otherwise is taken
// from what it is known to do: the bytes of memory-bound work that is not fused, scores of
// attention in memory, parameters gathered for each micro-batch (ZeRO-3), gradients reduced after
// the last backward, parameters gathered beside the next forward, messages between stages split
// over tensor ranks, inputs gathered again for the gradients of weights.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/cost/profile.h"
#include "runtime/cost/reductions.h"
#include "runtime/cost/step_time.h"

namespace trireme::cost {
namespace {

using Json = nlohmann::json;
using Numbers = std::map<std::string, double>;

struct Run {
  Json row;
  Profile profile;                  // of the data sheet
  std::vector<MeasuredLoop> loops;  // without their rates: what loops over memory in its plans
  /// All layouts that the row may mean: more than one where micro-batch or chunks are unknown.
  std::vector<PlannedLayout> layouts;
};

bool is_h100(const Run& run) { return run.row["gpu"].get<std::string>().starts_with("H100"); }

TransformerConfig config_of(const Json& row) {
  TransformerConfig config;
  config.num_layers = row["layers"];
  config.hidden_size = row["hidden"];
  config.ffn_hidden_size = row["ffn"];
  config.num_attention_heads = row["heads"];
  config.num_query_groups = row["kv_heads"];
  constexpr Index widest_head = 128;  // of our kernels: more heads do the same products
  if (config.head_dim() > widest_head)
    config.num_attention_heads = config.num_query_groups = config.hidden_size / widest_head;
  config.vocab_size = row["vocab"];
  config.seq_length = row["seq_length"];
  config.tie_embeddings = row["tied"];
  if (row["mlp"] == "swiglu") {
    config.mlp = MlpKind::swiglu;
    config.normalization = Normalization::rms_norm;
    config.position = PositionKind::rotary;
    config.add_bias_linear = false;
  }
  return config;
}

RecomputeGranularity recompute_of(const std::string& text) {
  if (text == "full") return RecomputeGranularity::full;
  if (text == "selective_layer") return RecomputeGranularity::none;  // see computed_again
  return text.starts_with("selective") ? RecomputeGranularity::selective
                                       : RecomputeGranularity::none;
}

/// The micro-batches and chunks that a row may mean.
std::vector<Candidate> candidates_of(const Json& row) {
  const int tp = row["tp"], pp = row["pp"], dp = row["dp"], layers = row["layers"];
  const Index batch = row["global_batch"], known_micro_batch = row["micro_batch"];
  const int known_chunks = row["virtual_stages"];
  std::vector<Candidate> all;
  for (const Index micro_batch : {1, 2, 4}) {
    const Index size = known_micro_batch > 0 ? known_micro_batch : micro_batch;
    if (batch % (dp * size) != 0) continue;
    for (int chunks = 1; chunks <= layers / pp; ++chunks) {
      const int used = known_chunks > 0 ? known_chunks : chunks;
      const Index micro_batches = batch / (dp * size);
      const bool published = row["recompute"] != "unknown";
      if (used > 1 && (layers % (pp * used) != 0 || micro_batches % pp != 0 || pp == 1)) continue;
      Candidate candidate;
      candidate.spec.mesh = MeshShape(dp, pp, tp);
      candidate.spec.chunks = used;
      candidate.spec.schedule = used > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
      candidate.spec.micro_batch_size = size;
      candidate.spec.global_batch_size = batch;
      candidate.spec.compute = DType::bf16;
      candidate.spec.update = row["zero_stage"] == 0 ? Update::replicated : Update::sharded;
      candidate.recompute = recompute_of(row["recompute"]);
      if (row["sequence_parallel"]) candidate.sequence_parallel = SequenceParallel::on;
      all.push_back(candidate);
      if (known_chunks > 0 || published) break;  // without a word: not interleaved
    }
    if (known_micro_batch > 0) break;
  }
  return all;
}

/// All kinds of loops, those of the step's end included.
std::vector<MeasuredLoop> loops_of(const PlannedLayout& layout) {
  std::set<std::pair<std::string, bool>> kinds = {
      {"update", false}, {"gradient_norm", false}, {"zero_gradients", false}};
  for (const auto& stage : layout.stages)
    for (const Plan& chunk : stage->train.model().chunks)
      for (const StepWork& work : chunk.work())
        if (work.loop_bytes() > 0) kinds.emplace(work.op, work.phase == StepWork::Phase::backward);
  std::vector<MeasuredLoop> loops;
  for (const auto& [op, backward] : kinds) loops.push_back({op, backward, 0});
  return loops;
}

Run plan(const Json& row) {
  Run run{row,
          known_profile(row["gpu"].get<std::string>().starts_with("H100") ? "H100-SXM"
                        : row["gpu"] == "A100-40"                         ? "A100-40GB"
                                                                          : "A100-80GB"),
          {},
          {}};
  LayoutPlanner planner(transformer_models(config_of(row)), run.profile.device);
  std::string refused;
  for (const Candidate& candidate : candidates_of(row)) try {
      run.layouts.push_back(planner.plan(candidate));
    } catch (const Error& error) {  // one of several readings
      refused = error.what();
    }
  require(!run.layouts.empty(), row["id"].get<std::string>() + ": no layout: " + refused);
  run.loops = loops_of(run.layouts.front());
  return run;
}

/// Of the peak, forward.
double attention_share(const Run& run, const Numbers& numbers) {
  const std::string kind = run.row["attention"];
  if (kind != "flash2") return numbers.at("attention." + kind);
  return numbers.at(is_h100(run) ? "attention.flash2.H100" : "attention.flash2.A100");
}

/// The rates of an attention that keeps its scores, whole squares of 2 bytes: products as any
/// other, four of them backward, as none is computed again, and loops between them. Softmax reads
/// the half that is not masked and writes all (Megatron-LM, scaled_upper_triang_masked_softmax.h);
/// dropout reads and writes all, and a byte of its mask. `loops`: how much more time loops take
/// than these bytes.
std::vector<MeasuredAttention> unfused_attention(const Json& row, double loops,
                                                 const Profile& profile) {
  const Index s = row["seq_length"], head = row["hidden"].get<Index>() / row["heads"].get<Index>();
  const auto product = [&](Index n, Index k) {
    return product_time({s, n, k, 1, DType::bf16}, profile);
  };
  const double squares = static_cast<double>(s * s);
  const auto rate = [&](int to_scores, int from_scores, double bytes, double counted) {
    const double seconds = to_scores * product(s, head) + from_scores * product(head, s) +
                           loops * bytes * squares / profile.bytes_per_s;
    return counted * squares * static_cast<double>(head) / seconds;
  };
  constexpr double softmax = 1 + 2, softmax_backward = 1 + 1 + 2, dropout = 2 + 2 + 1;
  return {{s, head, false, DType::bf16, rate(1, 1, softmax + dropout, 2)},
          {s, head, true, DType::bf16, rate(1, 3, softmax_backward + dropout, 5)}};
}

/// How often a framework moves what the plan's loop moves once. Products and attention move their
/// own bytes in any framework.
double traffic_of(const std::string& op, const std::string& kind, const Numbers& numbers) {
  if (kind == "fused") return 1;
  const bool megatron = kind == "megatron";
  if (op == "gradient_norm" || op == "zero_gradients") return 1;
  // AdamW as eight kernels, 80 bytes of a parameter in place of 30; Megatron's is one kernel.
  if (op == "update") return megatron ? 1 : 80.0 / 30;
  // Megatron's norms are fused. What its own kernels leave is in its class.
  if (megatron && op.find("_norm") != std::string::npos) return 1;
  // Logits become fp32, and their loss is four kernels: 36 bytes of a logit in place of 6.
  if (op == "linear_cross_entropy" && kind != "compiled") return 6;
  return numbers.at("class." + kind);
}

Profile profile_of(const Run& run, const Numbers& numbers) {
  Profile profile = run.profile;
  const bool low_power = run.row["gpu"] == "H100-HBM2e-500W";
  profile.efficiency = numbers.at(is_h100(run) ? "efficiency.H100" : "efficiency.A100") *
                       (low_power ? numbers.at("power.500W") : 1);
  profile.half_k = numbers.at("half_k");
  const double nominal = low_power ? 2.4e12 : is_h100(run) ? 3.35e12 : 2.039e12;
  profile.bytes_per_s = (run.row["gpu"] == "A100-40" ? 1.555e12 : nominal) * numbers.at("memory");
  if (run.row["attention"] == "unfused") {
    profile.attentions = unfused_attention(run.row, numbers.at("class.megatron"), profile);
  } else {
    profile.attention_forward = attention_share(run, numbers);
    profile.attention_backward = profile.attention_forward * numbers.at("backward");
  }
  profile.loops = run.loops;
  for (MeasuredLoop& loop : profile.loops)
    loop.bytes_per_s = profile.bytes_per_s / traffic_of(loop.op, run.row["elementwise"], numbers);
  profile.node.bytes_per_s = (is_h100(run) ? 450e9 : 300e9) * numbers.at("link");
  profile.node.latency = numbers.at("latency_us") * 1e-6;
  profile.collective_seconds = numbers.at("collective_us") * 1e-6;
  profile.contention = numbers.at("contention");
  profile.op_seconds = numbers.at("host_us") * 1e-6;
  return profile;
}

Network network_of(const Run& run, const Numbers& numbers) {
  Network network;
  network.ranks_per_node = run.row["gpus_per_node"];
  network.port.bytes_per_s = run.row["network_gb_s"].get<double>() * 1e9 * numbers.at("port");
  network.port.latency = 2 * numbers.at("latency_us") * 1e-6;
  return network;
}

/// Tensor ranks send a part of a message each; the receiving node gathers them (Narayanan et al.
/// 2021, section 4.1; DeepSpeed's PartitionedTensor).
StepTime with_split_messages(const PlannedLayout& layout, const Profile& profile,
                             const Network& network) {
  const double ranks = layout.candidate.spec.mesh.size(Axis::tensor);
  const double port = network.port.bytes_per_s * profile.port_efficiency;
  Network split = network;
  split.port.bytes_per_s *= 1 / (1 / ranks + (1 - 1 / ranks) * port / profile.node.bytes_per_s);
  StepTime time = step_time(layout, profile, split);
  if (layout.candidate.spec.mesh.size(Axis::data) == 1) return time;
  const StepTime whole = step_time(layout, profile, network);  // sums of gradients are not split
  const double exchange = time.exchange, bubble = time.bubble;
  time = whole;
  time.exchange = exchange;
  time.bubble = bubble;
  time.total += exchange - whole.exchange + bubble - whole.bubble;
  return time;
}

/// What torchtitan computes again and our plan does not: with "selective_op" every second product
/// of a block (wk, wo and w3 of wq, wk, wv, wo, w1, w3, w2), with "selective_layer" every second
/// block.
double computed_again(const Run& run, const StepTime& time) {
  const std::string kind = run.row["recompute"];
  if (kind == "selective_layer")
    return (time.products + time.attention + time.memory_bound) / 3 / 2;
  if (kind != "selective_op") return 0;
  const TransformerConfig config = config_of(run.row);
  const auto h = static_cast<double>(config.hidden_size),
             ffn = static_cast<double>(config.ffn_hidden_size),
             kv = static_cast<double>(config.num_query_groups * config.head_dim());
  const double again = h * kv + h * h + h * ffn, block = 2 * h * h + 2 * h * kv + 3 * h * ffn;
  const double head = h * static_cast<double>(config.vocab_size);
  const auto layers = static_cast<double>(config.num_layers);
  return time.products / 3 * again * layers / (block * layers + head);
}

/// What is not waited for where parameters are gathered beside the next step's first forward.
double hidden_gather(const PlannedLayout& layout, const StepTime& time, const Profile& profile,
                     const Network& network, const Numbers& numbers) {
  double gather = 0;
  for (std::size_t s = 0; s < layout.stages.size(); ++s)
    gather = std::max(gather,
                      update_time(*layout.stages[s], static_cast<int>(s), profile, network).gather);
  const double forward = (time.products + time.attention + time.memory_bound) / 3 /
                         static_cast<double>(layout.shape().micro_batches);
  return std::min({gather, time.data_traffic, forward * numbers.at("hidden")}) *
         (1 - profile.contention);
}

/// Parameters are gathered for the forward and for the backward of each micro-batch, gradients
/// reduced in each backward; what the micro-batch computes hides a share of it. Parameters are
/// copied out of the buffer of each gather, gradients into that of their sum: read and written.
double zero3_seconds(const Run& run, const PlannedLayout& layout, const StepTime& time,
                     const Profile& profile, const Network& network, const Numbers& numbers) {
  const Json& row = run.row;
  const double micro_batches = static_cast<double>(layout.shape().micro_batches);
  const double bytes =
      2.0 * static_cast<double>(config_of(row).parameter_count()) / row["tp"].get<double>();
  const int blocks = row["layers"];
  const Group group{row["dp"], row["tp"]};
  const auto seconds = [&](CollectiveWork::Kind kind, double all) {
    return blocks * collective_time({kind, group.size, all / blocks}, group, profile, network);
  };
  const double traffic = 2 * seconds(CollectiveWork::Kind::all_gather, bytes) +
                         seconds(CollectiveWork::Kind::reduce_scatter, bytes);
  const double compute =
      (time.products + time.attention + time.memory_bound + time.host) / micro_batches;
  const double hidden = std::min(traffic, compute * numbers.at("hidden"));
  const double copies = 3 * 2 * bytes / profile.bytes_per_s;
  return micro_batches * (traffic - hidden + hidden * profile.contention + copies);
}

double seconds_of(const Run& run, const PlannedLayout& layout, const Numbers& numbers) {
  const Profile profile = profile_of(run, numbers);
  const Network network = network_of(run, numbers);
  const MeshShape& mesh = layout.candidate.spec.mesh;
  const bool splits = run.row["splits_messages"].get<bool>() && mesh.size(Axis::tensor) > 1 &&
                      mesh.size(Axis::pipeline) > 1;
  const StepTime time =
      splits ? with_split_messages(layout, profile, network) : step_time(layout, profile, network);
  double seconds = time.total + computed_again(run, time);
  // Of four transfers of a layer's activations, one more.
  if (run.row["gathers_again"].get<bool>()) seconds += time.tensor_traffic / 4;
  if (run.row["gathers_beside_forward"].get<bool>())
    seconds -= hidden_gather(layout, time, profile, network, numbers);
  if (run.row["zero_stage"] == 3) {
    seconds += zero3_seconds(run, layout, time, profile, network, numbers) - time.data_traffic;
  } else if (!run.row["overlaps"].get<bool>()) {
    // Half of the bytes, after the last backward.
    seconds += (time.data_traffic + time.hidden_traffic) / 2 - time.data_traffic;
  }
  const double nodes =
      std::max(1.0, run.row["gpus"].get<double>() / run.row["gpus_per_node"].get<double>());
  return seconds * (1 + numbers.at("jitter") * std::log2(nodes));
}

void answer() {
  std::string line;
  std::getline(std::cin, line);
  std::vector<Run> runs;
  Json bytes = Json::array();
  for (const Json& row : Json::parse(line)) {
    runs.push_back(plan(row));
    bytes.push_back(device_bytes(runs.back().layouts.front(), runs.back().profile));
  }
  std::cout << bytes.dump() << std::endl;
  while (std::getline(std::cin, line)) {
    const Json question = Json::parse(line);
    const auto numbers = question.at("numbers").get<Numbers>();
    Json seconds = Json::array();
    for (const std::size_t position : question.at("runs")) {
      const Run& run = runs.at(position);
      double least = std::numeric_limits<double>::infinity();
      for (const PlannedLayout& layout : run.layouts)
        least = std::min(least, seconds_of(run, layout, numbers));
      seconds.push_back(least);
    }
    std::cout << seconds.dump() << std::endl;
  }
}

}  // namespace
}  // namespace trireme::cost

int main() {
  try {
    trireme::cost::answer();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "published_layouts: " << error.what() << "\n";
    return 1;
  }
}
