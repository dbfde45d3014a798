// What collectives of GPUs take through trireme's own path (Communicator over NCCL), in the style
// of NVIDIA's nccl-tests: size, time, algorithm and bus bandwidth, and how many elements are wrong.
//   mpirun -np 8 gpu_nccl_benchmark -b 8 -e 128M -f 2 --json FILE
// How to read it: docs/gpu/benchmarks.md.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <unistd.h>

#include "trireme/comm/agree.h"
#include "trireme/job/run.h"

#include "tests/benchmarks/gpu/nccl_report.h"

namespace trireme::test {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

enum class Group { world, data, tensor, pipeline };
const std::vector<std::pair<std::string, Group>> groups = {{"world", Group::world},
                                                           {"data", Group::data},
                                                           {"tensor", Group::tensor},
                                                           {"pipeline", Group::pipeline}};
constexpr Operation all_operations[] = {Operation::all_reduce, Operation::reduce_scatter,
                                        Operation::all_gather, Operation::exchange,
                                        Operation::broadcast};

struct Settings {
  Index least_bytes = 8, most_bytes = Index{128} << 20, factor = 2;
  Index iterations = 20, warm_up = 5, repeats = 5;
  std::vector<std::string> operations, types = {"f32", "bf16"};
  Group group = Group::world;
  double limit_s = 0;  // 0: none
  std::string json;
};

void declare(CommandLine& c, Settings& s) {
  c.group("Benchmark");
  c.size("--minbytes,-b", s.least_bytes, 1, "smallest size");
  c.size("--maxbytes,-e", s.most_bytes, 1, "largest size");
  c.whole("--stepfactor,-f", s.factor, {2, 1 << 20}, "from one size to the next");
  c.whole("--iters,-n", s.iterations, {1, 1'000'000}, "operations in a row that are timed as one");
  c.whole("--warmup-iters,-w", s.warm_up, {0, 1'000'000}, "operations before, which are not");
  c.whole("--repeats", s.repeats, {5, 1'000'000}, "times; their median counts");
  c.list("--operations", s.operations, "NAME", "which collectives");
  c.list("--types,-d", s.types, "TYPE", "f32, bf16");
  c.choice("--group", s.group, groups, "whose collectives; of which size: --tp, --pp");
  c.real("--limit-s", s.limit_s, {0, most_count, true}, "seconds after which no size is begun");
  c.text("--json", s.json, "FILE", "a file for all that is found, replaced after every size");
}

void check_words(const char* option, const std::vector<std::string>& words,
                 const std::vector<std::string>& legal, Problems& problems) {
  std::string all;
  for (const std::string& word : legal) all += " " + word;
  for (const std::string& word : words)
    if (std::find(legal.begin(), legal.end(), word) == legal.end())
      problems.add(option, " ", word, ": expected some of", all);
}

std::vector<std::string> names_of_operations() {
  std::vector<std::string> names;
  for (const Operation operation : all_operations) names.emplace_back(name(operation));
  return names;
}

void check(const Settings& s, Problems& problems) {
  if (s.least_bytes > s.most_bytes)
    problems.add("--minbytes ", s.least_bytes, " is more than --maxbytes ", s.most_bytes,
                 "; it must be at most as much");
  check_words("--operations", s.operations, names_of_operations(), problems);
  check_words("--types", s.types, {"f32", "bf16"}, problems);
}

/// NCCL_* of this process; NCCL has added what its configuration files say.
Json nccl_environment() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (text.rfind("NCCL_", 0) == 0)
      found[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  return found;
}

class Benchmark {
 public:
  Benchmark(Context& context, const Settings& settings)
      : context_(context),
        settings_(settings),
        group_(group_of(context.mesh(), settings.group)),
        begun_(Clock::now()) {}

  void run() {
    agree_or_stop(context_.host(), [&] { check_ranks(); });
    const std::vector<Size> sizes = all_sizes();
    agree_or_stop(context_.host(), [&] { check_memory(sizes); });
    agree_or_stop(context_.host(), [&] { allocate(); });
    std::optional<NcclReport> report;
    const Json header = describe();
    agree_or_stop(context_.host(),
                  [&] { report.emplace(context_.mesh().rank(), header, settings_.json); });
    Index wrong = 0;
    std::string stopped;
    for (std::size_t i = 0; i < sizes.size() && stopped.empty(); ++i) {
      stopped = why_stop(sizes, i);
      if (stopped.empty()) wrong += measure(sizes[i], *report);
    }
    report->end(stopped, wrong);
    if (wrong > 0) throw JobError(str(wrong, " elements are wrong (the column #wrong)"));
  }

 private:
  static Communicator& group_of(Mesh& mesh, Group group) {
    return group == Group::world    ? mesh.world()
           : group == Group::data   ? mesh.axis(Axis::data)
           : group == Group::tensor ? mesh.axis(Axis::tensor)
                                    : mesh.axis(Axis::pipeline);
  }
  bool asked_for(Operation operation) const {
    const auto& names = settings_.operations;
    return names.empty() || std::find(names.begin(), names.end(), name(operation)) != names.end();
  }
  void check_ranks() const {
    const auto& types = settings_.types;
    require(group_.size() <= most_ranks_of_bf16 ||
                std::find(types.begin(), types.end(), "bf16") == types.end(),
            "--types bf16: sums of ", group_.size(), " ranks are not exact in bf16, those of ",
            most_ranks_of_bf16, " are; use --types f32");
  }

  std::vector<Size> all_sizes() const {
    std::vector<Size> sizes;
    for (const std::string& type : settings_.types)
      for (const Operation operation : all_operations)
        for (Index bytes = settings_.least_bytes; bytes <= settings_.most_bytes;
             bytes *= settings_.factor) {
          if (!asked_for(operation)) continue;
          const DType dtype = type == "f32" ? DType::f32 : DType::bf16;
          const Size size = size_of(operation, dtype, group_.size(), bytes);
          const bool again = !sizes.empty() && sizes.back().operation == operation &&
                             sizes.back().dtype == dtype && sizes.back().total == size.total;
          if (!again) sizes.push_back(size);
        }
    return sizes;
  }

  void check_memory(const std::vector<Size>& sizes);
  void allocate();
  Json describe() const;
  std::string why_stop(const std::vector<Size>& sizes, std::size_t next) const;
  Index measure(const Size& size, NcclReport& report);
  std::optional<Measured> measure(const Size& size, Place place);
  Times time(Case& one);
  double most_of_ranks(double mine) const {
    context_.host().all_reduce({&mine, 1, DType::f64}, Reduction::max);
    return mine;
  }

  Context& context_;
  const Settings& settings_;
  Communicator& group_;
  Clock::time_point begun_;
  Buffer memory_, staging_;
  Index region_ = 0;  // bytes of each of the two
};

/// One allocation serves all sizes. It must fit as often as ranks share the device.
void Benchmark::check_memory(const std::vector<Size>& sizes) {
  constexpr Index alignment = 4096;
  for (const Size& size : sizes) region_ = std::max(region_, size.bytes());
  require(region_ <= most_count, "--maxbytes ", settings_.most_bytes, " is more than any GPU has");
  region_ = (region_ + alignment - 1) / alignment * alignment;
  const Index ranks = context_.options().ranks_per_gpu;
  const Index needed = 2 * region_ * ranks, free = context_.device().free_bytes();
  require(needed <= free, "--maxbytes ", settings_.most_bytes, ": ", needed,
          " bytes are needed (two regions", ranks > 1 ? ", each rank on the GPU" : "", "), ", free,
          " are free; use a smaller size");
}

void Benchmark::allocate() {
  constexpr Index staged = Index{16} << 20;
  memory_ = context_.device().allocate(2 * region_);
  staging_ = context_.device().allocate_pinned(std::min(staged, region_));
}

Json Benchmark::describe() const {
  const Host& host = context_.host();
  const std::vector<std::string> gpus = gather_strings(host, context_.device().identity());
  const std::string collectives = context_.mesh().memory_description();
  const auto nccl = collectives.find("NCCL ");
  return {
      {"program", "gpu_nccl_benchmark"},
      {"device", context_.device().describe()},
      {"gpus", std::set<std::string>(gpus.begin(), gpus.end())},
      {"collectives", collectives},
      {"nccl", nccl == std::string::npos
                   ? Json(nullptr)
                   : Json(collectives.substr(nccl + 5, collectives.find(',', nccl) - nccl - 5))},
      {"layout", context_.mesh().shape().describe()},
      {"group", group_.name()},
      {"ranks", group_.size()},
      {"ranks_per_gpu", context_.options().ranks_per_gpu},
      {"iterations", settings_.iterations},
      {"environment", nccl_environment()}};
}

/// Collective. Not empty: no more sizes, and the reason.
std::string Benchmark::why_stop(const std::vector<Size>& sizes, std::size_t next) const {
  if (settings_.limit_s == 0) return {};
  const std::chrono::duration<double> passed = Clock::now() - begun_;
  if (most_of_ranks(passed.count()) < settings_.limit_s) return {};
  return str("after --limit-s ", settings_.limit_s, ", before ", name(sizes[next].operation),
             " of ", sizes[next].bytes(), " bytes in ", sizes[next].dtype, ": ", next, " of ",
             sizes.size(), " sizes are measured");
}

Index Benchmark::measure(const Size& size, NcclReport& report) {
  const auto out_of_place = measure(size, Place::out_of_place);
  const auto in_place = measure(size, Place::in_place);
  report.row(size, out_of_place, in_place);
  return (out_of_place ? out_of_place->wrong : 0) + (in_place ? in_place->wrong : 0);
}

std::optional<Measured> Benchmark::measure(const Size& size, Place place) {
  if (!exists(size.operation, place)) return {};
  Case one(size, place, group_, memory_.data(), memory_.data() + region_, staging_);
  Index wrong = one.wrong(context_.stream());
  const Host& host = context_.host();
  host.all_reduce({&wrong, 1, DType::i64}, Reduction::sum);
  return Measured{time(one), wrong};
}

/// Collective. The slowest rank counts, each time.
Times Benchmark::time(Case& one) {
  Stream& stream = context_.stream();
  for (Index i = 0; i < settings_.warm_up; ++i) one.run(stream);
  stream.synchronize();
  std::vector<double> times, host_times;
  const auto iterations = static_cast<double>(settings_.iterations);
  for (Index repeat = 0; repeat < settings_.repeats; ++repeat) {
    context_.host().world().barrier();
    const auto begun = Clock::now();
    const auto us = [&] {
      const std::chrono::duration<double, std::micro> passed = Clock::now() - begun;
      return passed.count() / iterations;
    };
    for (Index i = 0; i < settings_.iterations; ++i) one.run(stream);
    const double host = us();
    stream.synchronize();
    times.push_back(most_of_ranks(us()));
    host_times.push_back(most_of_ranks(host));
  }
  std::sort(times.begin(), times.end());
  std::sort(host_times.begin(), host_times.end());
  const std::size_t middle = times.size() / 2;
  return {times[middle], times.front(), times.back(), host_times[middle], settings_.repeats};
}

}  // namespace
}  // namespace trireme::test

int main(int argc, char** argv) {
  using namespace trireme;
  test::Settings settings;
  Application application;
  application.name = "gpu_nccl_benchmark";
  application.description = "Time and bandwidth of NCCL's collectives as training calls them";
  application.defaults.device = DeviceOption::cuda;
  application.defaults.log_level = LogLevel::quiet;
  // Nothing is trained, but the batch must divide: by the data sizes 1 to 12, 14 to 16, 20 to 22,
  // 24, 28, 30, 32, ..., 64, 128 and 256.
  application.defaults.global_batch_size = 887'040;
  application.declare = [&](CommandLine& c, Options&) { test::declare(c, settings); };
  application.check = [&](const CommandLine&, const Options&, Index, Problems& problems) {
    test::check(settings, problems);
  };
  return run(argc, argv, application,
             [&](Context& context) { test::Benchmark(context, settings).run(); });
}
