// Ranks of a node share its memory, those of a GPU the GPU's: each rank says what it needs of which place.
#include "runtime/train/memory_need.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/comm/agree.h"
#include "trireme/kernels/gemm.h"
#include "trireme/kernels/kernels.h"

#include "runtime/core/round_up.h"
#include "runtime/core/show_bytes.h"

namespace trireme {
namespace {

std::string node_name() {
  char name[256] = {};
  require(gethostname(name, sizeof name - 1) == 0, "gethostname failed");
  return name;
}

/// Bytes that a rank needs of one place.
struct Claim {
  std::string place;  // without spaces
  Index bytes;
};

std::string pack(const std::vector<Claim>& claims) {
  std::string text;
  for (const Claim& claim : claims) text += fmt::format("{} {} ", claim.place, claim.bytes);
  return text;
}

std::vector<Claim> unpack(const std::string& text) {
  std::vector<Claim> claims;
  std::istringstream in(text);
  for (Claim claim; in >> claim.place >> claim.bytes;) claims.push_back(claim);
  return claims;
}

/// What all ranks together need of a place. The rank that needs most speaks for them.
struct Demand {
  Index bytes = 0, most = 0;
  int ranks = 0, speaker = 0;
};

Demand demand_of(const std::string& place, const std::vector<std::string>& ranks) {
  Demand demand;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const Claim& claim : unpack(ranks[rank])) {
      if (claim.place != place) continue;
      demand.bytes += claim.bytes;
      ++demand.ranks;
      if (claim.bytes > demand.most)
        demand.most = claim.bytes, demand.speaker = static_cast<int>(rank);
    }
  return demand;
}

std::string advice(const Trainer::State& s, const MemoryNeed& need) {
  return str("on this rank ", need.describe(), "; its largest tensors:\n",
             largest_tensors(s.train->model().pointers(), *s.train->model().graph, 8),
             "\n    what helps: ",
             memory_remedies(s.context.options(), s.context.configuration(), s.context.data_size(),
                             need.checkpoint > 0));
}

}  // namespace

std::string memory_remedies(const Options& options, const KeyValues& configuration, int data_size,
                            bool checkpoint) {
  const auto value_of = [&](std::string_view option) {
    for (const auto& [name, value] : configuration)
      if (name == option) return value;
    return std::string();  // not an option of this program
  };
  std::string all;
  const auto add = [&](bool helps, const char* remedy) {
    if (helps) all += std::string(all.empty() ? "" : ", ") + remedy;
  };
  const std::string recompute = value_of("--recompute-granularity");
  const std::string chunks = value_of("--lm-head-chunks");
  add(options.micro_batch_size > 1, "a smaller --micro-batch-size");
  add(!recompute.empty() && recompute != "full", "--recompute-granularity full");
  add(chunks == "1", "--lm-head-chunks 8");
  add(data_size > 1 && !options.use_distributed_optimizer, "--use-distributed-optimizer");
  add(checkpoint, options.checkpoint.save_buffer == 0 ? "a --save-buffer such as 64M"
                                                      : "a smaller --save-buffer");
  add(true, "more ranks for --tp or --pp");
  return all;
}

Index MemoryNeed::aligned(Index bytes) {
  constexpr Index alignment = 4096;
  return round_up(bytes, alignment);
}

Index MemoryNeed::arena() const {
  return aligned(parameters) + aligned(gradients) + aligned(optimizer) + aligned(activations);
}

std::string MemoryNeed::describe() const {
  std::string text = fmt::format(
      "parameters {}, gradients {}, optimizer {}, activations {}, data {}", show_bytes(parameters),
      show_bytes(gradients), show_bytes(optimizer), show_bytes(activations), show_bytes(inputs));
  if (products > 0) text += ", products " + show_bytes(products);
  if (constants > 0) text += ", constants " + show_bytes(constants) + " already there";
  if (checkpoint > 0) text += ", checkpoint " + show_bytes(checkpoint);
  if (loading > 0) text += ", loading " + show_bytes(loading);
  return text + ", libraries about " + show_bytes(libraries);
}

MemoryNeed memory_need(const Trainer::State& s) {
  MemoryNeed need{};
  need.parameters = s.flat->parameter_bytes();
  need.gradients = s.flat->gradient_bytes();
  need.optimizer = Optimizer::state_bytes(*s.flat, s.context.options().optimizer);
  need.activations = std::max(s.train->bytes(), s.evaluate->bytes());
  if (s.generate) need.activations = std::max(need.activations, s.generate->bytes());
  for (const Pass* pass : {s.train.get(), s.evaluate.get(), s.generate.get()})
    if (pass != nullptr) need.constants += pass->model().graph->constant_bytes();
  need.inputs = s.train->model().pointers().empty()
                    ? 0
                    : s.train_inputs->bytes() + s.evaluate_inputs->bytes();
  need.checkpoint = s.checkpoint_bytes;
  need.loading = s.loading_bytes;
  Device& device = s.context.device();
  need.products = device.kernels().gemm.stream_bytes(device);
  return need;
}

void check_memory(Trainer::State& s) {
  const Host& host = s.context.host();
  Device& device = s.context.device();
  const MemoryNeed need = memory_need(s);
  const std::string node = node_name();
  const bool on_gpu = device.kind() == DeviceKind::cuda;
  std::vector<Claim> mine{{node, on_gpu ? need.host() : need.total()}};
  std::vector<Index> free{host.stream.device().free_bytes()};
  if (on_gpu) {
    mine.push_back({device.identity() + "-of-" + node, need.device()});
    free.push_back(device.free_bytes());
  }
  const auto all = gather_strings(host, pack(mine));
  Problems problems;
  std::string places;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const Demand demand = demand_of(mine[i].place, all);
    if (i == 0) s.node_ranks = demand.ranks;
    if (demand.bytes > free[i] && host.rank() == demand.speaker)
      problems.add("the plan needs ", show_bytes(demand.bytes), " for ", demand.ranks,
                   demand.ranks == 1 ? " rank" : " ranks", " on ", mine[i].place, ", where ",
                   show_bytes(free[i]), " are free; ", advice(s, need));
    places += fmt::format("; {} {} of {} free", i == 0 ? "this node" : "its GPU",
                          show_bytes(demand.bytes), show_bytes(free[i]));
  }
  agree_on(host, problems);
  Index most = need.total();
  host.all_reduce({&most, 1, DType::i64}, Reduction::max);
  s.context.log().info(fmt::format("memory planned: rank 0 {} ({}); largest rank {}{}",
                                   show_bytes(need.total()), need.describe(), show_bytes(most),
                                   places));
}

}  // namespace trireme
