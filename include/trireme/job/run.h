// run: from main() to a Context. It starts the transport, reads the options, makes all ranks agree
// that the job can run before anything is allocated, prints the effective configuration, and turns
// every failure into one message and an exit code: 0, 64 for a configuration that cannot run, 65
// for training that has diverged, 1 for another failure at run time, 75 for a job that has saved
// and stopped because of a signal or a time limit (ExitCode).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "trireme/comm/host.h"
#include "trireme/options/options.h"

namespace trireme {

/// The environment of a running program. Passed explicitly; there are no globals.
class Context {
 public:
  /// On a CPU, where host and device are the same.
  Context(const Options& options, Mesh& mesh, Stream& stream, const Log& log,
          KeyValues configuration = {}, std::function<std::string_view()> stop_reason = {})
      : Context(options, mesh, stream, Host{mesh, stream}, log, std::move(configuration),
                std::move(stop_reason)) {}
  /// `mesh` and `stream` are the device's.
  Context(const Options& options, Mesh& mesh, Stream& stream, const Host& host, const Log& log,
          KeyValues configuration = {}, std::function<std::string_view()> stop_reason = {})
      : options_(options),
        mesh_(mesh),
        stream_(stream),
        host_(host),
        log_(log),
        configuration_(std::move(configuration)),
        stop_reason_(std::move(stop_reason)) {}
  const Options& options() const { return options_; }
  /// Every option of the command line, the program's own included, with its effective value.
  const KeyValues& configuration() const { return configuration_; }
  /// Why this rank votes to stop at the end of the step, or of an evaluation batch: "SIGUSR1",
  /// "SIGTERM", "--exit-duration-seconds". Empty: it does not. Ranks must agree before they act on
  /// it, as Trainer::fit does.
  std::string_view stop_reason() const { return stop_reason_ ? stop_reason_() : ""; }
  Mesh& mesh() const { return mesh_; }
  Device& device() const { return stream_.device(); }
  Stream& stream() const { return stream_; }
  const Host& host() const { return host_; }
  const Log& log() const { return log_; }
  int data_size() const { return mesh_.shape().size(Role::batch); }
  /// Micro-batches that this rank runs a step.
  Index micro_batches() const {
    return options_.micro_batches(data_size(), mesh_.coordinate(Role::batch));
  }

 private:
  const Options& options_;
  Mesh& mesh_;
  Stream& stream_;
  Host host_;
  const Log& log_;
  KeyValues configuration_;
  std::function<std::string_view()> stop_reason_;
};

/// How many ranks a job has.
struct RankCounts {
  Index ranks = 1;
  Index per_node = 0;         // on the node that has most; 0: not known, as there are no ranks yet
  Index fewest_per_node = 0;  // on the node that has fewest; 0: as many as on all others
};

/// A program with options of its own.
struct Application {
  std::string name = "program";
  std::string description;
  Options defaults = {};
  /// Declares further options.
  std::function<void(CommandLine&, Options&)> declare = {};
  /// Checks them; runs on every rank after parsing. Open data files here rather than later.
  std::function<void(const CommandLine&, const Options&, Index ranks, Problems&)> check = {};
  /// Sets defaults that depend on other options, after parsing and before any check.
  std::function<void(const CommandLine&, Options&)> derive_defaults = {};
  /// Chooses options by the number of ranks, after derive_defaults and before any check: their
  /// values by canonical name, as they would be written; empty: none. Runs on rank 0 only; all
  /// ranks take what it returns, but for options that were given. Where it adds a problem, nothing
  /// else is checked.
  std::function<KeyValues(const CommandLine&, const Options&, const RankCounts&, Problems&)>
      choose = {};
};

/// Runs f on every rank. Returns the exit code.
int run(int argc, char** argv, const std::function<void(Context&)>& f);
int run(int argc, char** argv, const Application& application,
        const std::function<void(Context&)>& f);

/// Collective. Throws: ConfigurationError on every rank if any rank has a problem. Problems that
/// all ranks share are reported once, others with their rank.
void agree_on(const Host& host, const Problems& mine);

/// Collective. Runs `work` on every rank. Throws: JobError with the message of the lowest rank on
/// which it threw.
void agree_or_stop(const Host& host, const std::function<void()>& work);

}  // namespace trireme
