#include "launch/supervisor/records/ledger.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/version.h"
#include "trireme/options/command_line.h"

#include "runtime/core/files/plain_file.h"
#include "runtime/core/parse_number.h"
#include "runtime/core/require_call.h"

namespace trireme::supervisor {
namespace {

const std::string bytes_member = "_bytes";

/// Adds the name of a file or program. A name with bytes that are not UTF-8, which JSON cannot
/// hold, is there in hexadecimal digits as well.
void add_name(Json::Object& all, const std::string& key, const std::string& name) {
  all.emplace_back(key, name);
  if (std::get<std::string>(parse_json(to_text(Json(name))).value) == name) return;
  std::string digits;
  for (const char c : name) digits += fmt::format("{:02x}", static_cast<unsigned char>(c));
  all.emplace_back(key + bytes_member, std::move(digits));
}

/// Empty where these are no such digits.
std::string bytes_of(std::string_view digits) {
  std::string bytes;
  for (; digits.size() >= 2; digits.remove_prefix(2)) {
    const auto byte = parse_number<unsigned char>(digits.substr(0, 2), 16);
    if (!byte) return "";
    bytes += static_cast<char>(*byte);
  }
  return digits.empty() ? bytes : "";
}

/// The members of one object; what is missing or of another type keeps its default.
class Members {
 public:
  explicit Members(const Json& json) : json_(json) {}

  bool has(const char* key) const { return json_.find(key) != nullptr; }
  /// Throws: Error where it is more than any count of a run, with which nothing can be reckoned.
  Index whole(const char* key) const {
    const Index value = get<Index>(key);
    require(-most_count <= value && value <= most_count, key, " is ", value);
    return value;
  }
  /// The number of an attempt.
  Index attempt() const {
    const Index number = whole("attempt");
    require(number >= 0, "attempt is ", number);
    return number;
  }
  bool flag(const char* key) const { return get<bool>(key); }
  std::string text(const char* key) const { return get<std::string>(key); }
  /// What add_name() has added.
  std::string name(const char* key) const {
    const std::string bytes = bytes_of(text((key + bytes_member).c_str()));
    return bytes.empty() ? text(key) : bytes;
  }
  Index date(const char* key) const { return date_of(text(key)); }
  /// Seconds, or a number of GPUs. Throws: as whole().
  double real(const char* key) const {
    const double value = number(key);
    require(std::abs(value) <= static_cast<double>(most_count), key, " is ", value);
    return value;
  }
  double number(const char* key) const {
    const Json* found = json_.find(key);
    if (found != nullptr && std::holds_alternative<Index>(found->value))
      return static_cast<double>(std::get<Index>(found->value));
    return get<double>(key);
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> all;
    for (const Json& each : get<Json::Array>(key))
      if (const auto* text = std::get_if<std::string>(&each.value)) all.push_back(*text);
    return all;
  }
  std::optional<SaveRule> saves() const {
    if (has("save_steps")) return SaveRule{.steps = whole("save_steps")};
    if (has("save_seconds")) return SaveRule{.seconds = real("save_seconds")};
    return std::nullopt;
  }
  std::vector<Blame> blame(const char* key) const {
    std::vector<Blame> all;
    for (const Json& each : get<Json::Array>(key)) {
      const Members members(each);
      all.push_back({members.text("host"), members.whole("points"), members.text("why")});
    }
    return all;
  }

 private:
  template <class T>
  T get(const char* key) const {
    const Json* found = json_.find(key);
    const T* typed = found == nullptr ? nullptr : std::get_if<T>(&found->value);
    return typed == nullptr ? T() : *typed;
  }

  const Json& json_;
};

/// Returns whether the object is a line of a ledger.
bool add(History& history, const Json& json) {
  const Members line(json);
  const bool begins = json.find("began") != nullptr;
  const bool ends = json.find("ended") != nullptr;
  if (json.find("attempt") != nullptr && begins) {
    history.add(AttemptBegan{line.attempt(), line.date("began"), line.texts("nodes"),
                             line.whole("ranks"), line.whole("spares"), line.whole("resumed"),
                             line.real("waited_s"), line.text("layout"), line.flag("fewer"),
                             line.whole("slots"), line.real("no_hosts_s"), line.real("preflight_s"),
                             line.flag("went_back"), line.saves()});
  } else if (json.find("attempt") != nullptr && ends) {
    history.add(
        AttemptEnded{line.attempt(),
                     line.date("ended"),
                     line.whole("code"),
                     line.text("cause"),
                     line.text("signature"),
                     line.text("error"),
                     line.blame("blame"),
                     line.whole("last_step"),
                     line.whole("durable"),
                     line.real("wall_s"),
                     line.real("start_s"),
                     line.real("useful_s"),
                     line.real("lost_s"),
                     line.real("stall_s"),
                     line.real("detect_s"),
                     line.has("gpus_per_rank") ? line.real("gpus_per_rank") : -1,
                     line.real("save_s"),
                     line.whole("first_step"),
                     line.texts("slow"),
                     line.whole("saves"),
                     line.real("save_interval"),
                     {line.has("started") ? line.whole("started") : -1, line.text("tier")},
                     line.has("clean") ? std::optional(line.whole("clean")) : std::nullopt});
  } else if (json.find("supervisor") != nullptr && begins) {
    history.add(SupervisionBegan{line.date("began"), line.whole("supervisor"), line.text("host"),
                                 line.text("run"), line.name("program"), line.whole("quarantine_s"),
                                 line.name("metrics"), line.text("ckpt_step"), line.whole("format"),
                                 line.text("version")});
  } else if (json.find("supervisor") != nullptr && ends) {
    history.add(SupervisionEnded{line.date("ended"), line.whole("code"), line.text("why")});
  } else if (json.find("released") != nullptr) {
    history.add(Release{line.text("released"), line.date("at"), 0});
  } else if (json.find("leave") != nullptr) {
    history.add(Leave{line.text("leave"), line.date("at"), line.text("why"), line.flag("slow")});
  } else if (json.find("fault") != nullptr) {
    history.add(
        Fault{line.whole("attempt"), line.date("at"), line.text("fault"), line.text("victim")});
  } else if (json.find("loss_spike") != nullptr) {
    history.add(LossSpike{line.whole("attempt"), line.date("at"), line.whole("loss_spike"),
                          line.number("loss")});
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string date_text(Index seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

Index date_of(const std::string& text) {
  std::tm time = {};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time);
  return end != nullptr && *end == '\0' ? Index{::timegm(&time)} : 0;
}

bool is_planned(const std::string& cause) { return cause == "growth" || cause == "replacement"; }

bool is_failure(const std::string& cause) {
  return cause != "finished" && cause != "stopped" && !is_planned(cause);
}

Json to_json(const SupervisionBegan& line) {
  Json::Object all{{"supervisor", line.pid},
                   {"began", date_text(line.at)},
                   {"host", line.host},
                   {"run", line.run}};
  add_name(all, "program", line.program);
  all.emplace_back("quarantine_s", line.quarantine_s);
  add_name(all, "metrics", line.metrics);
  all.emplace_back("ckpt_step", line.ckpt_step);
  all.emplace_back("format", ledger_format);
  all.emplace_back("version", version());
  return all;
}

Json to_json(const SupervisionEnded& line) {
  return Json::Object{{"supervisor", Index{::getpid()}},
                      {"ended", date_text(line.at)},
                      {"code", line.code},
                      {"why", line.why}};
}

Json to_json(const AttemptBegan& line) {
  Json::Object all{{"attempt", line.attempt},
                   {"began", date_text(line.at)},
                   {"nodes", Json::Array(line.nodes.begin(), line.nodes.end())},
                   {"ranks", line.ranks},
                   {"spares", line.spares},
                   {"resumed", line.resumed},
                   {"waited_s", line.waited_s},
                   {"layout", line.layout},
                   {"fewer", line.fewer},
                   {"slots", line.slots},
                   {"no_hosts_s", line.no_hosts_s},
                   {"preflight_s", line.preflight_s},
                   {"went_back", line.went_back}};
  if (line.saves && line.saves->steps > 0) all.emplace_back("save_steps", line.saves->steps);
  if (line.saves && line.saves->steps == 0) all.emplace_back("save_seconds", line.saves->seconds);
  return all;
}

Json to_json(const AttemptEnded& line) {
  Json::Array blame;
  for (const Blame& each : line.blame)
    blame.emplace_back(
        Json::Object{{"host", each.host}, {"points", each.points}, {"why", each.why}});
  Json::Object all{{"attempt", line.attempt},
                   {"ended", date_text(line.at)},
                   {"last_step", line.last_step},
                   {"durable", line.durable},
                   {"code", line.code},
                   {"cause", line.cause},
                   {"signature", line.signature},
                   {"error", line.error},
                   {"blame", std::move(blame)},
                   {"wall_s", line.wall_s},
                   {"start_s", line.start_s},
                   {"useful_s", line.useful_s},
                   {"lost_s", line.lost_s},
                   {"stall_s", line.stall_s},
                   {"detect_s", line.detect_s},
                   {"save_s", line.save_s},
                   {"first_step", line.first_step},
                   {"saves", line.saves},
                   {"save_interval", line.save_interval}};
  if (line.gpus_per_rank >= 0) all.emplace_back("gpus_per_rank", line.gpus_per_rank);
  if (line.started.step >= 0) {
    all.emplace_back("started", line.started.step);
    all.emplace_back("tier", line.started.tier);
  }
  if (line.clean) all.emplace_back("clean", *line.clean);
  all.emplace_back("slow", Json::Array(line.slow.begin(), line.slow.end()));
  return all;
}

Json to_json(const Release& line) {
  return Json::Object{{"released", line.host}, {"at", date_text(line.at)}};
}

Json to_json(const LossSpike& line) {
  return Json::Object{{"loss_spike", line.step},
                      {"attempt", line.attempt},
                      {"at", date_text(line.at)},
                      {"loss", line.loss}};
}

Json to_json(const Leave& line) {
  return Json::Object{
      {"leave", line.host}, {"at", date_text(line.at)}, {"why", line.why}, {"slow", line.slow}};
}

Json to_json(const Fault& line) {
  return Json::Object{{"fault", line.kind},
                      {"victim", line.victim},
                      {"attempt", line.attempt},
                      {"at", date_text(line.at)}};
}

std::string History::metrics_in(const std::string& run_directory) const {
  return metrics.empty() ? run_directory + "/metrics.jsonl" : metrics;
}

void History::add(const SupervisionBegan& line) {
  if (run.empty()) run = line.run;
  if (line.format > ledger_format)
    newer = str("format ", line.format, " of trireme ", line.version);
  program = line.program;
  if (!supervisions.empty() && supervisions.back().ckpt_step != line.ckpt_step)
    given = attempts.size();
  metrics = line.metrics;
  supervisions.push_back(line);
  end.reset();
}

void History::add(const SupervisionEnded& line) {
  end = line;
  first = attempts.size();
}

void History::add(const AttemptBegan& line) { attempts.push_back({line, std::nullopt}); }

void History::add(const AttemptEnded& line) {
  if (attempts.empty() || attempts.back().began.attempt != line.attempt) {
    ++ignored;
    return;
  }
  attempts.back().ended = line;
  attempts.back().started = line.started;
}

void History::add(const Release& line) {
  releases.push_back(line);
  releases.back().after = attempts.size();  // by order, not by clocks
}

void History::add(const Leave& line) {
  leaves.push_back(line);
  leaves.back().after = releases.size();
}

History replay(std::string_view text) {
  History history;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // never acknowledged
    try {
      if (!add(history, parse_json(text.substr(0, end)))) ++history.ignored;
    } catch (const Error&) {
      ++history.ignored;
    }
    text.remove_prefix(end + 1);
  }
  return history;
}

LedgerFile::LedgerFile(const std::string& path) : path_(path) {
  file_ = open_plain_file(path, O_RDWR | O_CREAT | O_APPEND, 0644);
  require_call(file_ >= 0, path, ": open");
  off_t end = ::lseek(file_, 0, SEEK_END);
  char last = '\n';
  while (end > 0 && ::pread(file_, &last, 1, end - 1) == 1 && last != '\n') --end;
  require_call(::ftruncate(file_, end) == 0, path, ": ftruncate");
}

LedgerFile::~LedgerFile() { ::close(file_); }

void LedgerFile::append(const Json& line) {
  const std::string text = to_text(line) + '\n';
  const off_t end = ::lseek(file_, 0, SEEK_END);
  const ssize_t written = ::write(file_, text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) {
    const std::string why = written < 0 ? std::strerror(errno) : "no space for the whole line";
    const bool cut = end >= 0 && ::ftruncate(file_, end) == 0;  // or the next line would be torn
    throw Error(str(path_, ": write: ", why, cut ? "" : "; its last line is torn"));
  }
  require_call(::fsync(file_) == 0, path_, ": fsync");
}

}  // namespace trireme::supervisor
