#include "launch/supervisor/machine/faults.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <random>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"

namespace trireme::supervisor {
namespace {

constexpr Index most_bytes = 4096;  // of an offer or a request
const std::string rank_variable = "OMPI_COMM_WORLD_RANK";

std::string offer_path(const Paths& paths) { return paths.folder + "/chaos-offer"; }
std::string request_path(const Paths& paths) { return paths.folder + "/chaos-request"; }

std::string new_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

/// For this user only: the token is the right to disturb the run.
void write_private(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  remove_file(fresh);
  const int file = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  require(file >= 0, fresh, ": open: ", std::strerror(errno));
  const ssize_t written = ::write(file, text.data(), text.size());
  const int reason = errno;
  ::close(file);
  require(written == static_cast<ssize_t>(text.size()), fresh, ": write: ", std::strerror(reason));
  rename_path(fresh, path);
}

std::string text_in(const Json& json, const char* key) {
  const Json* found = json.find(key);
  const auto* text = found == nullptr ? nullptr : std::get_if<std::string>(&found->value);
  return text == nullptr ? "" : *text;
}

/// Nothing: there is no such file, or it is no JSON.
std::optional<Json> read_json(const std::string& path) {
  try {
    return parse_json(read_whole(path, most_bytes));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string describe(const FaultKind& kind, const Descendant& victim) {
  switch (kind.victim) {
    case Victim::rank:
      return str("rank ", victim.value);
    case Victim::launcher:
      return "mpirun";
    case Victim::daemon:
      return "a daemon of mpirun";
    case Victim::supervisor:
      return "the supervisor";
  }
  return "";
}

}  // namespace

const std::vector<FaultKind>& fault_kinds() {
  static const std::vector<FaultKind> kinds = {
      {"kill", Victim::rank, SIGKILL, "killed"},
      {"segv", Victim::rank, SIGSEGV, "crashed"},
      {"stop", Victim::rank, SIGSTOP, "hang"},
      {"mpirun", Victim::launcher, SIGKILL, "launcher_killed"},
      {"daemon", Victim::daemon, SIGKILL, "node_lost"},
      {"term", Victim::supervisor, SIGTERM, "stopped"},
  };
  return kinds;
}

const FaultKind* find_fault_kind(const std::string& name) {
  for (const FaultKind& kind : fault_kinds())
    if (kind.name == name) return &kind;
  return nullptr;
}

std::optional<ChaosOffer> read_offer(const Paths& paths) {
  const std::optional<Json> json = read_json(offer_path(paths));
  if (!json) return std::nullopt;
  ChaosOffer offer{text_in(*json, "run"), text_in(*json, "token"), 0};
  if (const Json* limit = json->find("hang_s"))
    if (const auto* seconds = std::get_if<double>(&limit->value)) offer.hang_s = *seconds;
  return offer;
}

void remove_offer(const Paths& paths) { remove_file(offer_path(paths)); }

void ask_for(const FaultRequest& request, const Paths& paths) {
  write_private(request_path(paths),
                to_text(Json::Object{
                    {"token", request.token}, {"kind", request.kind}, {"draw", request.draw}}));
}

bool is_pending(const Paths& paths) { return ::access(request_path(paths).c_str(), F_OK) == 0; }

void withdraw_request(const Paths& paths) { remove_file(request_path(paths)); }

std::vector<Descendant> victims_of(const FaultKind& kind, pid_t mpirun) {
  if (kind.victim == Victim::supervisor) return {{::getpid(), 0, ""}};
  if (kind.victim == Victim::launcher) return {{mpirun, 0, ""}};
  const std::vector<Descendant> all = descendants_of(mpirun, rank_variable);
  std::vector<Descendant> found;
  for (const Descendant& each : all) {
    const bool wraps = std::any_of(all.begin(), all.end(), [&](const Descendant& other) {
      return other.parent == each.id && !other.value.empty();
    });
    const bool is_rank = !each.value.empty() && !wraps;
    const bool is_daemon = each.value.empty() && each.parent == mpirun;
    if (kind.victim == Victim::rank ? is_rank : is_daemon) found.push_back(each);
  }
  return found;
}

FaultDesk::FaultDesk(const Paths& paths, double hang_s, std::string variable)
    : paths_(paths), variable_(std::move(variable)), token_(new_token()) {
  withdraw_request(paths_);
  write_private(offer_path(paths_),
                to_text(Json::Object{{"run", paths_.run}, {"token", token_}, {"hang_s", hang_s}}));
}

FaultDesk::~FaultDesk() {
  ::unlink(offer_path(paths_).c_str());
  ::unlink(request_path(paths_).c_str());
}

std::optional<FaultOrder> FaultDesk::read(pid_t mpirun, Index attempt, Index date) const {
  if (mpirun <= 0 || !is_pending(paths_)) return std::nullopt;
  const std::optional<Json> request = read_json(request_path(paths_));
  try {
    require(request && text_in(*request, "token") == token_,
            "a request without the token of this supervisor");
    const std::string name = text_in(*request, "kind");
    const FaultKind* kind = find_fault_kind(name);
    require(kind != nullptr, "a request for '", name, "', which is no kind of fault");
    const std::vector<Descendant> victims = victims_of(*kind, mpirun);
    require(!victims.empty(), "a request for '", name, "', of which there is no process here");
    const Json* draw = request->find("draw");
    const auto* number = draw == nullptr ? nullptr : std::get_if<Index>(&draw->value);
    const auto count = static_cast<Index>(victims.size());
    const auto chosen = static_cast<std::size_t>(number == nullptr ? 0 : std::abs(*number % count));
    const Descendant& victim = victims[chosen];
    return FaultOrder{{attempt, date, name, describe(*kind, victim)}, victim.id, kind->signal};
  } catch (const Error&) {
    withdraw_request(paths_);
    throw;
  }
}

void FaultDesk::strike(const FaultOrder& order) const {
  withdraw_request(paths_);
  if (order.process == ::getpid())
    ::kill(order.process, order.signal);
  else
    signal_if_it_has(order.process, variable_, order.signal);
}

}  // namespace trireme::supervisor
