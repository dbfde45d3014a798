#include "runtime/job/gemm_peak.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/comm/agree.h"
#include "trireme/kernels/device.h"

#include "runtime/core/json/json_record.h"
#include "runtime/core/require_call.h"
#include "runtime/core/text/one_line.h"
#include "runtime/store/file.h"
#include "runtime/store/write/unfinished.h"

namespace trireme {
namespace {

constexpr Index limit_bytes = 1 << 20;

/// Empty where the environment names no directory for caches.
std::string cache_directory() {
  for (const auto& [variable, below] :
       {std::pair{"XDG_CACHE_HOME", ""}, std::pair{"HOME", "/.cache"}})
    if (const char* directory = std::getenv(variable); directory != nullptr && *directory == '/')
      return str(directory, below);
  return "";
}

std::string cache_file() {
  const std::string directory = cache_directory();
  return directory.empty() ? "" : directory + "/trireme/gemm_peak.json";
}

/// What distinguishes rates: the model of the device, how many ranks measured at once, since they
/// share its power and memory, and the type. The last part of a description is free memory, which
/// changes.
std::string kind_of(const Context& context, int node_ranks) {
  std::string device = context.device().describe();
  device.resize(std::min(device.size(), device.rfind(", ")));
  return str(device, ", ", name(context.options().compute()), ", ranks on the node: ", node_ranks);
}

/// Collective. Rank 0 reads: one reader of a shared file system is enough.
GemmRates stored_rates(const Context& context) {
  std::string text;
  if (context.host().rank() == 0 && !cache_file().empty()) try {
      text = read_whole(cache_file(), limit_bytes);
    } catch (const Error&) {  // measured again
    }
  return parse_gemm_rates(broadcast_text(context.host(), text));
}

/// Of jobs that write at the same time one is the last; the rates of others are measured again.
void store(const GemmRates& rates) {
  make_directory(cache_directory());
  make_directory(cache_directory() + "/trireme");
  replace_file(cache_file(), to_text(rates));
}

/// FLOP/s; 0 where memory is too short to measure.
double measured_rate(const Context& context) {
  try {
    return measure_gemm_flops(context.stream(), context.options().compute());
  } catch (const Error&) {
    return 0;
  }
}

/// Collective. Each rank measures a kind that `rates` lacks; of one kind the best rank counts.
void measure_missing(const Context& context, const std::string& kind, GemmRates& rates) {
  Index missing = rates.contains(kind) ? 0 : 1;
  const bool measures = missing != 0;
  context.host().all_reduce({&missing, 1, DType::i64}, Reduction::sum);
  if (missing == 0) return;
  GemmRates mine;
  if (measures) mine[kind] = measured_rate(context);
  for (const std::string& text : gather_strings(context.host(), to_text(mine)))
    for (const auto& [other, rate] : parse_gemm_rates(text))
      rates[other] = std::max(rates[other], rate);
  if (context.host().rank() != 0 || cache_file().empty()) return;
  try {
    store(rates);
  } catch (const Error& error) {
    context.log().info(str("the measured GEMM peak is not kept: ", error.what()));
  }
}

/// Of the rate of a device that it may use alone: on a CPU this rank's part of the cores, where
/// they are fewer than threads; of a GPU its part.
double share_of_device(const Context& context, int node_ranks) {
  if (context.device().kind() == DeviceKind::cuda)
    return 1.0 / static_cast<double>(context.options().ranks_per_gpu);
  const auto node_threads = static_cast<double>(node_ranks * context.options().threads_per_rank);
  const auto cores = static_cast<double>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  return std::min(1.0, cores / node_threads);
}

}  // namespace

std::string to_text(const GemmRates& rates) {
  return to_text(JsonForm<GemmRates>::write(rates)) + "\n";
}

GemmRates parse_gemm_rates(const std::string& text) {
  GemmRates rates;
  try {
    const Json json = parse_json(text);
    JsonReader reader(json, "");
    JsonForm<GemmRates>::read(reader, rates);
    std::erase_if(rates, [](const auto& each) { return !(each.second > 0); });
  } catch (const Error&) {
  }
  return rates;
}

std::optional<double> given_gemm_rate(const Host& host) {
  const char* const set = host.rank() == 0 ? std::getenv("TRIREME_GEMM_PEAK") : nullptr;
  const std::string text = broadcast_text(host, set == nullptr ? "" : set);
  if (text.empty()) return {};
  char* end = nullptr;
  const double rate = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(rate) || rate <= 0)
    throw JobError(str("TRIREME_GEMM_PEAK=", one_line(text),
                       " in the environment is no number of FLOP/s above 0, such as 1e12"));
  return rate;
}

double gemm_peak_of_all_ranks(const Context& context, int node_ranks) {
  const std::string kind = kind_of(context, node_ranks);
  GemmRates rates;
  if (const std::optional<double> given = given_gemm_rate(context.host())) {
    rates[kind] = *given;
  } else {
    rates = stored_rates(context);
    measure_missing(context, kind, rates);
  }
  const auto rate = rates.find(kind);
  double peak = rate == rates.end() ? 0 : rate->second * share_of_device(context, node_ranks);
  context.host().all_reduce({&peak, 1, DType::f64}, Reduction::sum);
  return peak;
}

}  // namespace trireme

namespace trireme::job {
namespace {

namespace fs = std::filesystem;

/// An empty file of this rank, for others to see; removed when this goes.
class Probe {
 public:
  Probe(const std::string& directory, int rank)
      : path_(fmt::format("{}/.rank-{}-XXXXXX", directory, rank)) {
    const int file = ::mkstemp(path_.data());
    require_call(file >= 0, "--gemm-cache ", directory, ": no file can be made there");
    ::close(file);
  }
  ~Probe() { ::unlink(path_.c_str()); }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  std::string name() const { return fs::path(path_).filename(); }

 private:
  std::string path_;
};

}  // namespace

void open_gemm_directory(const std::string& directory, const Host& host, Problems& problems) {
  std::unique_ptr<Probe> mine;
  problems.collect([&] {
    std::error_code failed;
    fs::create_directory(directory, failed);
    require(!failed, "--gemm-cache ", directory, ": cannot be made: ", failed.message());
    mine = std::make_unique<Probe>(directory, host.rank());
  });
  const std::string theirs = gather_strings(host, mine ? mine->name() : "").front();
  if (mine && !theirs.empty() && !fs::exists(fs::path(directory) / theirs))
    problems.add("--gemm-cache ", directory,
                 ": what rank 0 writes there is not seen here; all ranks need one directory, on a "
                 "file system that all nodes share");
  host.world().barrier();  // files stay until all have looked
}

}  // namespace trireme::job
