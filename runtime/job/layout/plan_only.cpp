#include "runtime/job/layout/plan_only.h"

#include <algorithm>

#include <fmt/core.h>

#include "runtime/comm/mpi/mpi_session.h"
#include "runtime/core/parse_number.h"
#include "runtime/job/layout/plan_layout.h"
#include "runtime/options/field_names.h"

namespace trireme::job {
namespace {

constexpr Index most_ranks = Index{1} << 20;
const std::string option = "--plan-only";

struct Question {
  Index ranks = 0;  // 0: not given
  std::optional<DeviceTraits> device;
};

Question parse(const std::string& value) {
  Question question;
  if (value.empty()) return question;
  const std::size_t comma = value.find(',');
  const std::optional<Index> ranks = parse_number<Index>(value.substr(0, comma));
  require(ranks && *ranks >= 1 && *ranks <= most_ranks, "expected a number of ranks from 1 to ",
          most_ranks, ", and the name of a GPU behind a comma: ", option, "=64,H100-SXM");
  question.ranks = *ranks;
  if (comma != std::string::npos) question.device = gpu_traits(value.substr(comma + 1));
  return question;
}

/// Of a layout with one data rank, or one for each share. What is wrong with the options is found
/// when all are read.
Index ranks_of_one_replica(const Program& program) {
  Options options = program.application.defaults;
  CommandLine command(program.application.name, "");
  declare_options(command, options);
  Problems of_others;  // options of the program's own are unknown here
  command.parse(program.argc, program.argv, of_others);
  const auto shares = static_cast<Index>(
      std::max(options.data_parallel_shares.size(), options.optimizer_shares.size()));
  return options.tensor_size * options.pipeline_size * std::max<Index>(1, shares);
}

int refuse(const Problems& problems) {
  fmt::print(stderr, "trireme: this configuration cannot run: {} problem{}\n",
             problems.all().size(), problems.all().size() == 1 ? "" : "s");
  for (const std::string& problem : problems.all())
    fmt::print(stderr, "  - {}\n", with_options(problem));
  return static_cast<int>(ExitCode::configuration);
}

}  // namespace

std::optional<std::string> layout_to_print(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == option) return "";
    if (word.starts_with(option + "=")) return std::string(word.substr(option.size() + 1));
  }
  return std::nullopt;
}

int print_layout(const std::string& value, int argc, char** argv, const Application& application,
                 const std::function<void(Context&)>& f) {
  const LaunchedRank launched = launched_rank().value_or(LaunchedRank{});
  if (launched.rank != 0) return static_cast<int>(ExitCode::success);  // rank 0 speaks
  const Program program{argc, argv, application, f};
  Problems problems;
  Question question;
  try {
    question = parse(value);
  } catch (const Error& error) {
    problems.add(option, "=", value, ": ", error.what());
    return refuse(problems);
  }
  Index ranks = question.ranks;
  if (ranks == 0) ranks = launched.ranks > 1 ? launched.ranks : ranks_of_one_replica(program);
  LayoutOptions read(application);
  const CommandLine::Outcome outcome = read_layout_options(program, ranks, read, problems);
  if (outcome != CommandLine::Outcome::run) {
    fmt::print("{}", read.command.text_of(outcome));
    return static_cast<int>(ExitCode::success);
  }
  if (!problems.empty()) return refuse(problems);
  const MeshShape shape(static_cast<int>(read.options.data_size(ranks)),
                        static_cast<int>(read.options.pipeline_size),
                        static_cast<int>(read.options.tensor_size));
  std::optional<LayoutChecked> planned;
  problems.collect([&] { planned = plan_layout(program, read, shape, question.device); });
  if (problems.empty() && !planned)
    problems.add(option, ": ", application.name, " has no Trainer, which plans");
  if (!problems.empty()) return refuse(problems);
  fmt::print("{}", planned->description);
  return static_cast<int>(ExitCode::success);
}

}  // namespace trireme::job
