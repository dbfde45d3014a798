// many_layouts FILE: the jobs of the lines of FILE, one after the other on the ranks of one start
// of mpirun. A line has variables of the environment ("EMULATION_SCHEDULE=lazy"), which also those
// after it have, and then options of train_gpt. The first job that fails ends all.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime/comm/mpi/mpi_session.h"
#include "runtime/core/cuda_module.h"
#include "runtime/job/run_rank.h"
#include "tests/support/gpt_ranks.h"

namespace trireme::test {
namespace {

/// The emulation of the tests reads its settings once, unless it is asked to.
void read_settings_of_emulation() {
  const char* const module = std::getenv("TRIREME_CUDA_MODULE");
  if (module == nullptr) return;
  std::string reason;
  if (auto* const read = find_in_cuda_module<void()>(module, "emulation_read_settings", reason))
    read();
}

/// Returns what is left of the line.
std::string take_environment(const std::string& line) {
  const std::size_t options = line.find("--");
  require(options != std::string::npos, "a line without options: ", line);
  for (const std::string& word : split_words(line.substr(0, options))) {
    const std::size_t equal = word.find('=');
    require(equal != std::string::npos &&
                setenv(word.substr(0, equal).c_str(), word.substr(equal + 1).c_str(), 1) == 0,
            word, " is no variable");
  }
  read_settings_of_emulation();
  return line.substr(options);
}

int run_lines(int argc, char** argv) {
  observe::StatusPage page;
  MpiSession session(argc, argv);
  require(argc == 2, "usage: many_layouts FILE");
  std::ifstream lines(argv[1]);
  require(lines.good(), argv[1], " cannot be read");
  for (std::string line; std::getline(lines, line);) try {
      train_gpt(job::started_by(session, page), take_environment(line));
    } catch (const ConfigurationError& error) {  // of all ranks
      if (session.rank() == 0) std::fprintf(stderr, "%s\n%s\n", line.c_str(), error.what());
      return static_cast<int>(ExitCode::configuration);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n%s\n", session.rank(), line.c_str(), error.what());
      throw;  // the session ends the other ranks as it unwinds
    }
  return 0;
}

}  // namespace
}  // namespace trireme::test

int main(int argc, char** argv) {
  try {
    return trireme::test::run_lines(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "many_layouts: %s\n", error.what());
    return 1;
  }
}
