// The preflight of hosts before an attempt uses them: that of trireme, or a command of the user.
#include <csignal>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/machine.h"
#include "launch/supervisor/machine/preflight_figures.h"
#include "launch/supervisor/machine/processes.h"
#include "runtime/store/file.h"

namespace trireme::supervisor {
namespace {

constexpr double longest_s = 300;
constexpr int all_well = 0, some_are_bad = 69;  // exit codes of trireme preflight

/// The exit code; nothing: a signal ended it, or it took too long.
std::optional<int> run_to_end(const Words& words, const Variables& variables, int output,
                              const Machine& clock) {
  const pid_t child = start_program(words, variables, output, true);
  const double until = clock.now() + longest_s;
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(child, &status, WNOHANG)) == 0 && clock.now() < until)
    ::poll(nullptr, 0, 10);
  if (ended == child) return WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt;
  ::kill(-child, SIGKILL);
  ::waitpid(child, &status, 0);
  return std::nullopt;
}

std::string joined(const Words& words, const char* between) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : between) + word;
  return all;
}

/// What the report says is bad of nodes. A slow link is not the fault of one node.
std::vector<UnfitHost> bad_nodes(const Json& report) {
  std::vector<UnfitHost> bad;
  const Json* findings = report.find("findings");
  const auto* all = findings == nullptr ? nullptr : std::get_if<Json::Array>(&findings->value);
  if (all == nullptr) return bad;
  for (const Json& finding : *all) {
    const Json *host = finding.find("host"), *peer = finding.find("peer"),
               *is_bad = finding.find("bad"), *text = finding.find("text");
    if (host == nullptr || peer == nullptr || is_bad == nullptr || text == nullptr) continue;
    const bool* flag = std::get_if<bool>(&is_bad->value);
    const auto* name = std::get_if<std::string>(&host->value);
    const auto* why = std::get_if<std::string>(&text->value);
    const bool node = std::holds_alternative<std::nullptr_t>(peer->value);
    if (flag == nullptr || !*flag || name == nullptr || why == nullptr || !node) continue;
    if (bad.empty() || bad.back().host != *name) bad.push_back({*name, *why});
  }
  return bad;
}

}  // namespace

std::vector<UnfitHost> Machine::unfit_of(const std::vector<Host>& hosts) {
  if (options_.preflight.empty() || options_.preflight == "off") return {};
  if (options_.preflight == "short") return short_preflight(hosts);
  std::vector<UnfitHost> unfit;
  for (const Host& host : hosts) {
    const auto code =
        run_to_end({"/bin/sh", "-c", options_.preflight}, {"TRIREME_HOST=" + host.name}, -1, *this);
    if (code != all_well)
      unfit.push_back({host.name, code ? str("--preflight ends with exit code ", *code)
                                       : "--preflight failed"});
  }
  return unfit;
}

std::vector<UnfitHost> Machine::short_preflight(const std::vector<Host>& hosts) {
  constexpr Index most_bytes = Index{1} << 28;
  Words names;
  for (const Host& host : hosts) names.push_back(host.name);
  const std::string report = paths_.preflight + ".of_these", log = paths_.folder + "/preflight.log";
  Words words = {std::filesystem::read_symlink("/proc/self/exe").string(),
                 "preflight",
                 "--hosts",
                 joined(names, ","),
                 "--run-dir",
                 paths_.run,
                 "--mpirun",
                 joined(options_.mpirun, " "),
                 "--json",
                 report};
  if (!options_.remote_shell.empty())
    words.insert(words.end(), {"--remote-shell", options_.remote_shell});
  remove_file(report);
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  std::optional<int> code;
  try {
    code = run_to_end(words, {}, output, *this);
  } catch (const Error& error) {  // the program was replaced while this process ran, for example
    say(error.what());
  }
  if (output >= 0) ::close(output);
  if (code != all_well && code != some_are_bad) {
    say("the preflight was not made, see " + log);
    return {};
  }
  std::vector<UnfitHost> bad;
  try {
    const Json found = parse_json(read_whole(report, most_bytes));
    bad = bad_nodes(found);
    keep_preflight(paths_, preflight::report_of(found));
    remove_file(report);
  } catch (const Error& error) {  // a full disk, for example: no reason to end the run
    say(str("the report of the preflight: ", error.what()));
  }
  return bad;
}

}  // namespace trireme::supervisor
