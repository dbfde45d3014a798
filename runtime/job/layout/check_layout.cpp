#include "runtime/job/layout/check_layout.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/comm/mpi/mpi_session.h"
#include "runtime/core/json/json.h"
#include "runtime/core/parse_number.h"
#include "runtime/core/require_call.h"
#include "runtime/job/layout/plan_layout.h"

namespace trireme {

using namespace job;

namespace {

constexpr std::size_t most_digits = 6;
const std::string option = "--check-layout";

std::vector<Index> parse_counts(const std::string& text) {
  std::vector<Index> counts;
  std::istringstream in(text);
  bool legal = true;
  for (std::string word; std::getline(in, word, ',');) {
    const bool number = !word.empty() && word.size() <= most_digits &&
                        word.find_first_not_of("0123456789") == std::string::npos;
    counts.push_back(number ? std::stoll(word) : 0);
    legal = legal && counts.back() > 0;
  }
  require(legal && !counts.empty(), "expected numbers of ranks, such as 8,6,4");
  return counts;
}

Json json_of(const KeyValues& options) {
  Json::Object all;
  for (const auto& [name, value] : options) all.emplace_back(name, value);
  return all;
}

Json check(const Program& program, Index ranks) {
  LayoutOptions read(program.application);
  const Options& options = read.options;
  Problems problems;
  read_layout_options(program, ranks, read, problems);
  Json::Object line{{"ranks", ranks}};
  if (problems.empty()) {
    const MeshShape shape(static_cast<int>(options.data_size(ranks)),
                          static_cast<int>(options.pipeline_size),
                          static_cast<int>(options.tensor_size));
    LayoutChecked found;
    problems.collect([&] { found = plan_layout(program, read, shape).value_or(LayoutChecked{}); });
    if (problems.empty())
      line.insert(line.end(), {{"legal", true},
                               {"data", Index{shape.size(Role::batch)}},
                               {"pipeline", options.pipeline_size},
                               {"tensor", options.tensor_size},
                               {"rank_bytes", found.rank_bytes},
                               {"state_bytes", found.state_bytes},
                               {"configuration", json_of(read.command.configuration())}});
  }
  if (problems.empty()) return line;
  Json::Array texts(problems.all().begin(), problems.all().end());
  line.insert(line.end(), {{"legal", false}, {"problems", std::move(texts)}});
  return line;
}

/// In a process of its own, whose standard output leads nowhere: the program may print.
[[noreturn]] void check_and_exit(const Program& program, Index ranks, int result) {
  const int nowhere = ::open("/dev/null", O_WRONLY);
  if (nowhere < 0 || ::dup2(nowhere, STDOUT_FILENO) < 0) std::_Exit(1);
  try {
    const std::string text = to_text(check(program, ranks));
    for (std::string_view left = text; !left.empty();) {
      const ssize_t written = ::write(result, left.data(), left.size());
      if (written <= 0) std::_Exit(1);
      left.remove_prefix(static_cast<std::size_t>(written));
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    std::_Exit(1);
  }
  std::_Exit(0);
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t bytes = ::read(file, buffer.data(), buffer.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(bytes));
  }
}

/// The line of one number of ranks; empty: the process of the check has failed.
std::string line_of(const Program& program, Index ranks) {
  int ends[2];
  require_call(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
  std::fflush(nullptr);  // or the child would print it again
  const pid_t child = ::fork();
  if (child == 0) check_and_exit(program, ranks, ends[1]);
  const int fork_failed = errno;
  ::close(ends[1]);
  const std::string text = child < 0 ? "" : read_all(ends[0]);
  ::close(ends[0]);
  require(child > 0, "fork: ", std::strerror(fork_failed));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "";
}

}  // namespace

std::optional<std::string> layouts_to_check(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == option) return i + 1 < argc ? argv[i + 1] : "";
    if (word.starts_with(option + "=")) return std::string(word.substr(option.size() + 1));
  }
  return std::nullopt;
}

int check_layouts(const std::string& counts, int argc, char** argv, const Application& application,
                  const std::function<void(Context&)>& f) {
  const Program program{argc, argv, application, f};
  std::vector<Index> ranks;
  Problems problems;
  problems.collect([&] { ranks = parse_counts(counts); });
  if (!problems.empty()) {
    fmt::print(stderr, "{} {}: {}\n", option, counts, problems.all().front());
    return static_cast<int>(ExitCode::configuration);
  }
  bool all = true;
  for (const Index count : ranks) {
    const std::string line = line_of(program, count);
    all = all && !line.empty();
    if (line.empty())
      fmt::print(stderr, "{} {}: the check of the program has failed\n", option, count);
    else
      fmt::print("{}\n", line);
  }
  return static_cast<int>(all ? ExitCode::success : ExitCode::failure);
}

}  // namespace trireme

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
  for (const std::string& problem : problems.all()) fmt::print(stderr, "  - {}\n", problem);
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
