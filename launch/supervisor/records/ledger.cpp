#include "launch/supervisor/records/ledger.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <iterator>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/version.h"
#include "trireme/options/command_line.h"

#include "runtime/core/files/plain_file.h"
#include "runtime/core/json/json_record.h"
#include "runtime/core/parse_number.h"
#include "runtime/core/require_call.h"

namespace trireme::supervisor {
namespace {

const std::string bytes_member = "_bytes";

enum class Kind { intended, planned, failure };
struct CauseRow {
  const char* name;
  Kind kind;
  const char* remedy;
};
/// In the order of the enum.
constexpr CauseRow cause_rows[] = {
    {"configuration", Kind::failure, "correct what the line names, then start `trireme run` again"},
    {"corruption", Kind::failure, "take the named host out of service: trireme nodes"},
    {"crashed", Kind::failure, "see the stack in output.log, and the core file beside it"},
    {"ended_early", Kind::failure, "see the end of output.log"},
    {"failed", Kind::failure, "see output.log"},
    {"finished", Kind::intended, ""},
    {"gpu_failed", Kind::failure,
     "see that host: nvidia-smi -q, dmesg; then trireme nodes release"},
    {"growth", Kind::planned, ""},
    {"hang", Kind::failure, "see the stacks of the ranks in verdict.json"},
    {"killed", Kind::failure,
     "see who sends signals on that host: dmesg, and the log of the batch system"},
    {"launcher_killed", Kind::failure,
     "see who ends mpirun: dmesg, and the log of the batch system"},
    {"node_lost", Kind::failure, "see that host and its network; then trireme nodes release"},
    {"numerics", Kind::failure,
     "a smaller --lr, a longer --lr-warmup-iters, or --ckpt-step of an older step"},
    {"out_of_memory", Kind::failure,
     "leave more memory to each process, or change the layout: trireme plan"},
    {"replacement", Kind::planned, ""},
    {"stopped", Kind::intended, ""},
    {"supervisor_lost", Kind::failure, ""},
    {"unknown", Kind::failure, ""},
};
static_assert(std::size(cause_rows) == static_cast<std::size_t>(Cause::unknown) + 1);
const CauseRow& row_of(Cause cause) { return cause_rows[static_cast<std::size_t>(cause)]; }

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

/// Returns the bytes in hexadecimal digits, or nothing where they are UTF-8, which JSON can hold.
std::string digits_of(const std::string& bytes) {
  if (std::get<std::string>(parse_json(to_text(Json(bytes))).value) == bytes) return "";
  std::string digits;
  for (const char c : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return digits;
}

/// A number of a run. With more than most_count nothing can be reckoned.
auto count(auto& number) { return within(number, -most_count, most_count); }
auto seconds(auto& number) {
  constexpr auto most = static_cast<double>(most_count);
  return within(number, -most, most);
}
auto attempt(auto& number) { return within(number, 0, most_count); }
auto date(auto& at) {
  return converted(
      at, date_text, [](const std::string& text) { return std::optional(date_of(text)); },
      "a date");
}

/// The name of a file or program. One with bytes that JSON cannot hold has a second member.
void name_with_bytes(const std::string& key, auto& name, auto& member) {
  std::string digits = digits_of(name);
  member.optional(key, name);
  member.when(!digits.empty(), key + bytes_member, digits);
  if constexpr (reads<decltype(member)>)
    if (std::string bytes = bytes_of(digits); !bytes.empty()) name = std::move(bytes);
}

}  // namespace

// A line of an older version lacks members, which keep their defaults.

void describe(RecordOf<SupervisionBegan> auto& line, auto& member) {
  member.optional("supervisor", count(line.pid));
  member.optional("began", date(line.at));
  member.optional("host", line.host);
  member.optional("run", line.run);
  name_with_bytes("program", line.program, member);
  member.optional("quarantine_s", count(line.quarantine_s));
  name_with_bytes("metrics", line.metrics, member);
  member.optional("ckpt_step", line.ckpt_step);
  member.optional("format", count(line.format));
  member.optional("version", line.version);
}

void describe(RecordOf<SupervisionEnded> auto& line, auto& member) {
  Index pid = ::getpid();
  member.optional("supervisor", pid);
  member.optional("ended", date(line.at));
  member.optional("code", count(line.code));
  member.optional("why", line.why);
}

void describe(RecordOf<AttemptBegan> auto& line, auto& member) {
  member.optional("attempt", attempt(line.attempt));
  member.optional("began", date(line.at));
  member.optional("nodes", line.nodes);
  member.optional("ranks", count(line.ranks));
  member.optional("spares", count(line.spares));
  member.optional("resumed", count(line.resumed));
  member.optional("waited_s", seconds(line.waited_s));
  member.optional("layout", line.layout);
  member.optional("fewer", line.fewer);
  member.optional("slots", count(line.slots));
  member.optional("no_hosts_s", seconds(line.no_hosts_s));
  member.optional("preflight_s", seconds(line.preflight_s));
  member.optional("went_back", line.went_back);
  SaveRule by_steps = line.saves.value_or(SaveRule{}), by_time = by_steps;
  member.when(by_steps.steps > 0, "save_steps", count(by_steps.steps));
  member.when(line.saves && by_time.steps == 0, "save_seconds", seconds(by_time.seconds));
  if constexpr (reads<decltype(member)>) {
    if (member.has("save_steps"))
      line.saves = by_steps;
    else if (member.has("save_seconds"))
      line.saves = by_time;
  }
}

void describe(RecordOf<Blame> auto& blame, auto& member) {
  member("host", blame.host);
  member("points", count(blame.points));
  member("why", blame.why);
}

void describe(RecordOf<AttemptEnded> auto& line, auto& member) {
  member.optional("attempt", attempt(line.attempt));
  member.optional("ended", date(line.at));
  member.optional("last_step", count(line.last_step));
  member.optional("durable", count(line.durable));
  member.optional("code", count(line.code));
  member.optional(
      "cause",
      converted(
          line.cause, [](Cause cause) { return name(cause); },
          [](const std::string& text) { return std::optional(cause_named(text)); }, "a cause"));
  member.optional("signature", line.signature);
  member.optional("error", line.error);
  member.optional("blame", line.blame);
  member.optional("wall_s", seconds(line.wall_s));
  member.optional("start_s", seconds(line.start_s));
  member.optional("useful_s", seconds(line.useful_s));
  member.optional("lost_s", seconds(line.lost_s));
  member.optional("stall_s", seconds(line.stall_s));
  member.optional("detect_s", seconds(line.detect_s));
  member.optional("save_s", seconds(line.save_s));
  member.optional("first_step", count(line.first_step));
  member.optional("saves", count(line.saves));
  member.optional("save_interval", seconds(line.save_interval));
  member.when(line.gpus_per_rank >= 0, "gpus_per_rank", seconds(line.gpus_per_rank));
  member.when(line.started.step >= 0, "started", count(line.started.step));
  member.when(line.started.step >= 0, "tier", line.started.tier);
  member.when(line.clean.has_value(), "clean", count(line.clean));
  member.optional("slow", line.slow);
}

void describe(RecordOf<Release> auto& line, auto& member) {
  member("released", line.host);
  member.optional("at", date(line.at));
}

void describe(RecordOf<LossSpike> auto& line, auto& member) {
  member("loss_spike", count(line.step));
  member.optional("attempt", count(line.attempt));
  member.optional("at", date(line.at));
  member.optional("loss", line.loss);
}

void describe(RecordOf<Leave> auto& line, auto& member) {
  member("leave", line.host);
  member.optional("at", date(line.at));
  member.optional("why", line.why);
  member.optional("slow", line.slow);
}

void describe(RecordOf<Fault> auto& line, auto& member) {
  member("fault", line.kind);
  member.optional("victim", line.victim);
  member.optional("attempt", count(line.attempt));
  member.optional("at", date(line.at));
}

namespace {

/// Returns whether the object is a line of a ledger. Throws: Error where a member of it is wrong.
bool add(History& history, const Json& json) {
  const auto has = [&](const char* key) { return json.find(key) != nullptr; };
  const auto add_as = [&]<class Line>() { history.add(from_json<Line>(json)); };
  if (has("attempt") && has("began"))
    add_as.operator()<AttemptBegan>();
  else if (has("attempt") && has("ended"))
    add_as.operator()<AttemptEnded>();
  else if (has("supervisor") && has("began"))
    add_as.operator()<SupervisionBegan>();
  else if (has("supervisor") && has("ended"))
    add_as.operator()<SupervisionEnded>();
  else if (has("released"))
    add_as.operator()<Release>();
  else if (has("leave"))
    add_as.operator()<Leave>();
  else if (has("fault"))
    add_as.operator()<Fault>();
  else if (has("loss_spike"))
    add_as.operator()<LossSpike>();
  else
    return false;
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

std::string name(Cause cause) { return row_of(cause).name; }

Cause cause_named(std::string_view name) {
  std::size_t i = 0;
  while (i < static_cast<std::size_t>(Cause::unknown) && name != cause_rows[i].name) ++i;
  return static_cast<Cause>(i);
}

bool is_planned(Cause cause) { return row_of(cause).kind == Kind::planned; }

bool is_failure(Cause cause) { return row_of(cause).kind == Kind::failure; }

std::string remedy_for(Cause cause) { return row_of(cause).remedy; }

Json to_json(const SupervisionBegan& line) {
  SupervisionBegan now = line;
  now.format = ledger_format;
  now.version = version();
  return trireme::to_json(now);
}
Json to_json(const SupervisionEnded& line) { return trireme::to_json(line); }
Json to_json(const AttemptBegan& line) { return trireme::to_json(line); }
Json to_json(const AttemptEnded& line) { return trireme::to_json(line); }
Json to_json(const Release& line) { return trireme::to_json(line); }
Json to_json(const Leave& line) { return trireme::to_json(line); }
Json to_json(const Fault& line) { return trireme::to_json(line); }
Json to_json(const LossSpike& line) { return trireme::to_json(line); }

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
