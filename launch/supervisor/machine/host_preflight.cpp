#include "launch/supervisor/machine/host_preflight.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/machine.h"
#include "runtime/core/text/one_line.h"
#include "runtime/store/file.h"
#include "runtime/store/write/unfinished.h"

namespace trireme::supervisor {
namespace {

std::string member_text(const Json& json, const char* key) {
  const Json* found = json.find(key);
  const auto* text = found == nullptr ? nullptr : std::get_if<std::string>(&found->value);
  return text == nullptr ? "" : *text;
}

}  // namespace

void keep_preflight(const Paths& paths, const preflight::Report& newest) {
  preflight::Report all = newest;
  for (const preflight::Node& node : read_preflight(paths).nodes) {
    const auto same = [&](const preflight::Node& each) { return each.host == node.host; };
    if (std::none_of(newest.nodes.begin(), newest.nodes.end(), same)) all.nodes.push_back(node);
  }
  replace_file(paths.preflight, to_text(to_json(all)) + "\n");
}

preflight::Report read_preflight(const Paths& paths) {
  constexpr Index most_bytes = Index{1} << 28;
  if (::access(paths.preflight.c_str(), F_OK) != 0) return {};
  try {
    return preflight::report_of(parse_json(read_whole(paths.preflight, most_bytes)));
  } catch (const Error&) {  // figures for people only
    return {};
  }
}

std::string text_of_figures(const preflight::Report& report) {
  std::string text;
  for (const preflight::Node& node : report.nodes) {
    std::string figures;
    for (const auto& [name, value] : node.figures)
      figures += fmt::format("{}{} {:.4g}", figures.empty() ? "" : ", ", name, value);
    text += fmt::format("preflight of {}: {}\n", node.host, figures);
  }
  return text;
}

void add_figures(Json& nodes, const preflight::Report& report) {
  Json::Array hosts;
  for (const preflight::Node& node : report.nodes) hosts.push_back(to_json(node));
  if (auto* members = std::get_if<Json::Object>(&nodes.value))
    members->emplace_back("preflight", std::move(hosts));
}

void add_unfit(Json& nodes, const std::vector<UnfitHost>& unfit) {
  Json::Array hosts;
  for (const UnfitHost& each : unfit)
    hosts.emplace_back(Json::Object{{"host", each.host}, {"why", each.why}});
  if (auto* members = std::get_if<Json::Object>(&nodes.value))
    members->emplace_back("unfit", std::move(hosts));
}

std::vector<UnfitHost> read_unfit(const Paths& paths) {
  constexpr Index most_bytes = Index{1} << 28;
  std::vector<UnfitHost> unfit;
  if (::access(paths.nodes.c_str(), F_OK) != 0) return unfit;
  try {
    const Json nodes = parse_json(read_whole(paths.nodes, most_bytes));
    const Json* found = nodes.find("unfit");
    const auto* hosts = found == nullptr ? nullptr : std::get_if<Json::Array>(&found->value);
    if (hosts == nullptr) return unfit;
    for (const Json& host : *hosts)
      unfit.push_back({member_text(host, "host"), member_text(host, "why")});
  } catch (const Error&) {  // derived from the ledger, for people
  }
  return unfit;
}

// The preflight of hosts before an attempt uses them: that of trireme, or a command of the user.

namespace {

constexpr double short_s = 300, long_s = 1200;  // at most
constexpr int all_well = 0, some_are_bad = 69;  // exit codes of trireme preflight

std::string joined(const Words& words, const char* between) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : between) + word;
  return all;
}

/// Empty: it has none.
std::string last_line_in(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);)
    if (line.find_first_not_of(" -\r") != std::string::npos) last = line;
  return one_line(last);
}

/// What the report says is bad of nodes. A slow link is not the fault of one node, but a GPU, whose
/// name is "n1/gpu3", is that of its node.
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
    const bool one = std::holds_alternative<std::nullptr_t>(peer->value);
    if (flag == nullptr || !*flag || name == nullptr || why == nullptr || !one) continue;
    const std::size_t end = name->find('/');
    const std::string node = name->substr(0, end);
    const std::string gpu = end == std::string::npos ? "" : name->substr(end + 1) + ": ";
    if (bad.empty() || bad.back().host != node) bad.push_back({node, gpu + *why});
  }
  return bad;
}

/// trireme preflight measures all hosts together.
class OwnPreflight : public Pending<Fitness> {
 public:
  OwnPreflight(const Words& words, ChildOptions options, Paths paths, std::string report)
      : options_(std::move(options)), paths_(std::move(paths)), report_(std::move(report)) {
    try {
      remove_file(report_);
      program_ = std::make_unique<Child>(words, options_);
    } catch (const Error& error) {  // the program was replaced while this process ran, for example
      failure_ = error.what();
    }
  }

  std::optional<Fitness> poll() override {
    if (program_ == nullptr) return Fitness{{}, failure_};
    const ChildEnd* end = program_->poll();
    if (end == nullptr) return std::nullopt;
    const std::string& log = options_.file;
    if (end->why == ChildEnd::Why::late)
      return Fitness{{}, str("it had not ended after ", options_.limit_s, " s, see ", log)};
    if (end->code() != all_well && end->code() != some_are_bad)
      return Fitness{{}, str("it failed: ", last_line_in(log), "; see ", log)};
    return read_report();
  }

 private:
  Fitness read_report() const {
    constexpr Index most_bytes = Index{1} << 28;
    try {
      const Json found = parse_json(read_whole(report_, most_bytes));
      Fitness fitness{bad_nodes(found), ""};
      keep(found);
      return fitness;
    } catch (const Error& error) {
      return Fitness{{}, str("its report cannot be read: ", error.what())};
    }
  }
  void keep(const Json& found) const {
    try {
      keep_preflight(paths_, preflight::report_of(found));
      remove_file(report_);
    } catch (const Error&) {  // a full disk, for example; these are figures for people
    }
  }

  const ChildOptions options_;
  const Paths paths_;
  const std::string report_;
  std::string failure_;
  std::unique_ptr<Child> program_;
};

/// A command of the user checks hosts, some at a time.
class PreflightOfUser : public Pending<Fitness> {
 public:
  PreflightOfUser(std::set<pid_t>& family, std::string command, const std::vector<Host>& hosts)
      : family_(family), command_(std::move(command)) {
    for (const Host& host : hosts) checks_.push_back({host.name});
  }
  /// All are asked to end before it waits for one.
  ~PreflightOfUser() override {
    for (const Check& check : checks_)
      if (check.program != nullptr) check.program->ask_to_end();
  }
  PreflightOfUser(const PreflightOfUser&) = delete;
  PreflightOfUser& operator=(const PreflightOfUser&) = delete;

  std::optional<Fitness> poll() override {
    constexpr int together = 32;
    int running = 0;
    Fitness fitness;
    for (Check& check : checks_) {
      if (running == together) return std::nullopt;
      try {
        if (!check.end && check.program == nullptr) check.program = start(check.host);
      } catch (const Error& error) {  // no fault of the host
        return Fitness{{}, error.what()};
      }
      if (check.program != nullptr)
        if (const ChildEnd* end = check.program->poll(); end != nullptr) {
          check.end = *end;
          check.program.reset();
        }
      if (!check.end)
        ++running;
      else if (std::string fault = fault_of(*check.end); !fault.empty())
        fitness.unfit.push_back({check.host, std::move(fault)});
    }
    return running > 0 ? std::nullopt : std::optional(fitness);
  }

 private:
  struct Check {
    std::string host;
    std::unique_ptr<Child> program = nullptr;  // while it runs
    std::optional<ChildEnd> end = {};
  };

  std::unique_ptr<Child> start(const std::string& host) const {
    return std::make_unique<Child>(
        Words{"/bin/sh", "-c", command_},
        ChildOptions{.environment = environment_with({"TRIREME_HOST=" + host}),
                     .limit_s = short_s,
                     .family = &family_});
  }
  /// Empty: none.
  static std::string fault_of(const ChildEnd& end) {
    if (end.why == ChildEnd::Why::late)
      return str("--preflight had not ended after ", short_s, " s");
    if (!end.code()) return "a signal ended --preflight";
    return *end.code() == all_well ? "" : str("--preflight ends with exit code ", *end.code());
  }

  std::set<pid_t>& family_;
  const std::string command_;
  std::vector<Check> checks_;
};

}  // namespace

std::unique_ptr<Pending<Fitness>> Machine::preflight(const std::vector<Host>& hosts,
                                                     bool thorough) {
  if (options_.preflight.empty() || options_.preflight == "off") return nullptr;
  if (options_.preflight != "short") {
    if (thorough) return nullptr;
    return std::make_unique<PreflightOfUser>(family_, options_.preflight, hosts);
  }
  Words names;
  for (const Host& host : hosts) names.push_back(host.name);
  const std::string report = paths_.preflight + ".of_these";
  std::error_code unknown;
  Words words = {std::filesystem::read_symlink("/proc/self/exe", unknown).string(),
                 "preflight",
                 "--hosts",
                 joined(names, ","),
                 "--run-dir",
                 paths_.run,
                 "--mpirun",
                 joined(options_.mpirun, " "),
                 "--json",
                 report};
  if (thorough) words.emplace_back("--long");
  if (!options_.remote_shell.empty())
    words.insert(words.end(), {"--remote-shell", options_.remote_shell});
  ChildOptions options{.environment = environment_with({variable()}),
                       .output = ChildOptions::Output::file,
                       .file = paths_.folder + "/preflight.log",
                       .limit_s = thorough ? long_s : short_s,
                       .family = &family_};
  return std::make_unique<OwnPreflight>(words, std::move(options), paths_, report);
}

}  // namespace trireme::supervisor
