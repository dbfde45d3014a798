// Ranks that train what examples/train_gpt trains, from the same options, by the start of a rank
// that run() has (runtime/job/run_rank.h): all checks of options run as well. They are threads of
// this process, or those of a session of MPI, which does one job after the other.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/mesh.h"

namespace trireme::job {
struct StartedRank;
}

namespace trireme::test {

/// Words as a shell splits them: at blanks, but for those between single quotes.
std::vector<std::string> split_words(const std::string& line);

/// Collective: a job of train_gpt with these options. Throws: ConfigurationError on all ranks where
/// they are refused, and what the program throws.
void train_gpt(const job::StartedRank& rank, const std::string& options);

/// Puts something between a rank and its mesh.
using Decorate = std::function<std::unique_ptr<Mesh>(Mesh& real)>;

/// Starts as many ranks on the CPU, and returns what they print. As between processes,
/// collectives work in memory of the mesh alone. Options that set the environment of the process,
/// such as --instruction-set, need processes. Throws: as train_gpt, with what was printed.
std::string train_gpt_on_threads(int ranks, const std::string& options,
                                 const Decorate& decorate = {});

/// What train_gpt says against these options for so many ranks, without ranks; nothing: it trains.
std::vector<std::string> problems_of(int ranks, const std::string& options);

}  // namespace trireme::test
