#include "runtime/checkpoint/initial_values.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "trireme/comm/agree.h"

#include "runtime/checkpoint/identity.h"
#include "runtime/checkpoint/messages.h"
#include "runtime/checkpoint/read.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/comm/page_of.h"
#include "runtime/core/show_bytes.h"
#include "runtime/interop/hf_source.h"
#include "runtime/interop/model_files.h"
#include "runtime/store/safetensors/reader.h"

namespace trireme::checkpoint {
namespace {

using interop::HfView;
using interop::ModelFiles;

/// More rows than the files have may be in tables of tokens: users add some.
bool may_have_more_rows(const std::string& logical) {
  return logical == "embedding.weight" || logical == "head.weight";
}

/// Differences between the job's tensors and the model's, a line each.
std::string differences(const Manifest& catalog, const std::vector<HfView>& views) {
  std::map<std::string, Shape> there;
  for (const HfView& view : views) there.emplace(parameters_prefix + view.logical, view.shape);
  std::string all;
  for (const Manifest::Tensor& tensor : catalog.tensors) {
    if (!tensor.name.starts_with(parameters_prefix)) continue;
    const auto found = there.find(tensor.name);
    if (found == there.end()) {
      all += str("has no tensor for ", tensor.name, ' ', tensor.global, '\n');
      continue;
    }
    Shape most = found->second;
    if (may_have_more_rows(tensor.name.substr(std::string(parameters_prefix).size())))
      most[0] = std::max(most[0], tensor.global[0]);
    if (most != tensor.global)
      all += str(tensor.name, " is ", tensor.global, " here and ", found->second, " there\n");
    there.erase(found);
  }
  for (const auto& [name, shape] : there)
    all += str("holds ", name, ' ', shape, ", for which this model has no place\n");
  return all;
}

/// Collective. Throws: ConfigurationError with all lines of rank 0.
void stop_for(const Host& host, const std::string& directory, const std::string& of_root) {
  Problems problems;
  problems.add_lines(str("--load-hf ", directory, ": "), broadcast_text(host, of_root));
  agree_on(host, problems);
}

/// What the files of all nodes must have in common.
struct Fingerprint {
  std::string headers, config, values;
};
Fingerprint fingerprint_of(const ModelFiles& model) {
  const std::string config = to_text(model.config.json);
  return {to_text(model.files.headers),
          to_text(checksum(config.data(), static_cast<Index>(config.size()))),
          to_text(safetensors::sample_of(model.files))};
}

/// Collective. The directory may be one of each node. Throws: ConfigurationError when a rank has
/// other files there than rank 0.
void stop_where_files_differ(const Host& host, const std::string& directory,
                             const Fingerprint& mine) {
  Problems problems;
  const auto compare = [&](const std::string& part, const char* what) {
    if (part != broadcast_text(host, host.rank() == 0 ? part : ""))
      problems.add("--load-hf ", directory, ": has ", what,
                   " here than where rank 0 runs; all nodes need the same files");
  };
  compare(mine.headers, "other tensors");
  compare(mine.config, "another config.json");
  compare(mine.values, "other values");
  agree_on(host, problems);
}

/// On rank 0: a line every few seconds. From any thread.
class Progress {
 public:
  Progress(const Context& context, Index total) : context_(context), total_(total) {}
  void add(Index bytes) {
    if (context_.host().rank() != 0) return;
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + between;
    context_.log().info(str("--load-hf: rank 0 has read ", show_bytes(done_), " of files with ",
                            show_bytes(total_)));
  }

 private:
  static constexpr std::chrono::seconds between{10};
  const Context& context_;
  std::mutex mutex_;
  Index done_ = 0, total_;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + between;
};

/// Collective. The sum, modulo 2^64, over all ranks.
std::uint64_t sum_over_ranks(const Host& host, std::uint64_t mine) {
  constexpr std::uint64_t low = 0xffff'ffffu;
  Index halves[2] = {static_cast<Index>(mine & low), static_cast<Index>(mine >> 32)};
  host.all_reduce({halves, 2, DType::i64}, Reduction::sum);
  return static_cast<std::uint64_t>(halves[0]) + (static_cast<std::uint64_t>(halves[1]) << 32);
}

/// Collective. Throws: JobError with the message of the first rank that has one.
void stop_if_failed(const Host& host, const std::string& mine) {
  Index failed = mine.empty() ? 0 : 1;
  host.all_reduce({&failed, 1, DType::i64}, Reduction::sum);
  if (failed == 0) return;
  for (const std::string& text : gather_strings(host, mine))
    if (!text.empty()) throw JobError("--load-hf: " + text);
}

/// What is read by all ranks together, and how long the slowest took.
struct ReadByAll {
  Index bytes = 0;
  double ms = 0;
  std::uint64_t sum = 0;
};

/// Collective.
ReadByAll read_all(const Context& context, const FlatParameters& flat, const ModelFiles& model) {
  const Host& host = context.host();
  Progress progress(context, model.files.bytes());
  observe::StatusPage no_page;
  observe::StatusPage& page = comm::page_of(host.mesh, no_page);
  interop::HfSource source(model.files, model.views, [&](Index bytes) { progress.add(bytes); });
  ReadReport mine;
  std::string failure;
  try {
    mine = read_parameters(context.stream(), source, flat, {}, reading_threads(context.options()),
                           [&page] { page.progressed(); });
  } catch (const std::exception& error) {
    failure = error.what();
  }
  stop_if_failed(host, failure);
  ReadByAll all{mine.bytes_read, mine.ms, sum_over_ranks(host, source.sum())};
  host.all_reduce({&all.bytes, 1, DType::i64}, Reduction::sum);
  host.all_reduce({&all.ms, 1, DType::f64}, Reduction::max);
  gather_parameters(flat, context.mesh().group(Role::shard), context.stream());
  return all;
}

/// Rows that the job has and the files have not; on rank 0.
Index new_rows(const Manifest& catalog, const ModelFiles& model) {
  const Manifest::Tensor* table = catalog.find(str(parameters_prefix, "embedding.weight"));
  return table == nullptr ? 0 : table->global[0] - model.config.model.vocab_size;
}

KeyValues facts_of(const std::string& directory, const ModelFiles& model, std::uint64_t sum) {
  const std::filesystem::path path(directory);
  const auto name = (path.has_filename() ? path : path.parent_path()).filename().string();
  const std::string facts = origin_facts;
  return {{facts + "model", name},
          {facts + "model type", model.config.model_type},
          {facts + "headers xxh3", to_text(model.files.headers)},
          {facts + "values xxh3", fmt::format("{:016x}", sum)}};
}

}  // namespace

KeyValues load_initial_values(const Context& context, const FlatParameters& flat,
                              const Manifest& catalog,
                              const std::function<void(const RowsHeld&)>& draw) {
  const Host& host = context.host();
  const CheckpointOptions& o = context.options().checkpoint;
  ModelFiles model;
  Fingerprint fingerprint;
  Problems problems;
  try {
    model = interop::open_model(o.load_hf);
    fingerprint = fingerprint_of(model);
  } catch (const Error& error) {
    problems.add_lines("--load-hf ", error.what());
  }
  agree_on(host, problems);
  stop_where_files_differ(host, o.load_hf, fingerprint);
  std::string different;
  const std::string failure = on_root(host, [&] {
    different = differences(catalog, model.views);
    if (const auto* head = interop::tied_head(model.views, model.files))
      interop::expect_equal(model.files, *head, *model.files.find(model.views.front().hf));
  });
  stop_for(host, o.load_hf, host.rank() == 0 ? different + failure : "");
  Index more = host.rank() == 0 ? new_rows(catalog, model) : 0;
  host.broadcast({&more, 1, DType::i64}, 0);
  if (more > 0) {
    context.log().info(str("--vocab-size ", model.config.model.vocab_size + more, ": ", more,
                           " rows more than in ", o.load_hf, " begin with initial values"));
    draw([&](const std::string& logical) {
      return may_have_more_rows(logical) ? model.config.model.vocab_size
                                         : std::numeric_limits<Index>::max();
    });
  }
  for (const std::string& note : model.config.notes)
    context.log().info(str("--load-hf ", o.load_hf, ": ", note));
  const ReadByAll read = read_all(context, flat, model);
  context.log().info(fmt::format("loaded {} from {}: {} read in {:.0f} ms, {:.2f} GB/s",
                                 model.config.model_type, o.load_hf, show_bytes(read.bytes),
                                 read.ms,
                                 static_cast<double>(read.bytes) / std::max(read.ms, 1e-3) / 1e6));
  KeyValues facts = facts_of(o.load_hf, model, read.sum);
  const std::string not_kept = on_root(host, [&] {
    if (!o.save.empty()) interop::keep_files(o.load_hf, o.save, facts);
  });
  if (!not_kept.empty()) throw JobError("--save " + o.save + ": " + not_kept);
  return facts;
}

}  // namespace trireme::checkpoint
