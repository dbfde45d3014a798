#include "launch/chaos/faults.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"
#include "runtime/observe/page_mapping.h"
#include "runtime/observe/page_reader.h"
#include "runtime/store/file.h"

namespace trireme::supervisor {
namespace {

constexpr Index most_offer_bytes = 4096;  // of an offer or a request
const std::string rank_variable = "OMPI_COMM_WORLD_RANK";

std::string offer_path(const Paths& paths) { return paths.folder + "/chaos-offer"; }
std::string request_path(const Paths& paths) { return paths.folder + "/chaos-request"; }

/// For this user only: the token is the right to disturb the run.
void write_private(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  remove_file(fresh);
  const int file = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  require_call(file >= 0, fresh, ": open");
  const ssize_t written = ::write(file, text.data(), text.size());
  const int reason = errno;
  const bool closed = ::close(file) == 0;  // a network file system may say only now that it is full
  require(written == static_cast<ssize_t>(text.size()), fresh, ": write: ", std::strerror(reason));
  require_call(closed, fresh, ": close");
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
    return parse_json(read_whole(path, most_offer_bytes));
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
    case Victim::host:
    case Victim::copy:
      break;  // no process
  }
  return "";
}

/// FaultRequest::draw; 0 where there is none.
std::uint64_t draw_in(const Json& request) {
  const Json* draw = request.find("draw");
  const auto* number = draw == nullptr ? nullptr : std::get_if<Index>(&draw->value);
  return number == nullptr ? 0 : static_cast<std::uint64_t>(*number);
}

/// One of `count`, which is not 0.
std::size_t chosen_of(const Json& request, std::size_t count) { return draw_in(request) % count; }

void choose_victim(const FaultKind& kind, const Scene& scene, const Json& request,
                   FaultOrder& order) {
  if (kind.victim == Victim::host) {
    order.fault.victim = "host " + scene.hosts[chosen_of(request, scene.hosts.size())].name;
    return;
  }
  if (kind.injected != observe::InjectedFault::none) {
    const std::vector<int> ranks = ranks_to_ask(kind, scene.pages);
    require(!ranks.empty(), "a request for '", kind.name,
            "', of which there is no rank here that writes a status page",
            kind.injected == observe::InjectedFault::full_disk ? ", besides rank 0" : "");
    const int rank = ranks[chosen_of(request, ranks.size())];
    order.fault.victim = str("rank ", rank);
    order.page = observe::page_path(scene.pages, rank);
    // Other bits than those that choose the rank count most.
    order.injection = {kind.injected, static_cast<std::uint32_t>(draw_in(request) / 7)};
    return;
  }
  const std::vector<Descendant> victims = victims_of(kind, scene.mpirun);
  require(!victims.empty(), "a request for '", kind.name, "', of which there is no process here");
  const Descendant& victim = victims[chosen_of(request, victims.size())];
  order.fault.victim = describe(kind, victim);
  order.process = victim.id;
  order.signal = kind.signal;
}

void check_hosts(const FaultKind& kind, const Scene& scene) {
  require(kind.victim != Victim::copy, "a request for '", kind.name,
          "', which trireme chaos does itself");
  require(kind.victim != Victim::host || !scene.hosts.empty(), "a request for '", kind.name,
          "', but the run has no hosts besides this machine");
  require(!kind.takes_host || scene.hosts.empty() || scene.spares > 0, "a request for '", kind.name,
          "', but no spare host is left");
}

}  // namespace

const std::vector<FaultKind>& fault_kinds() {
  using observe::InjectedFault;
  constexpr auto none = InjectedFault::none;
  static const std::vector<FaultKind> kinds = {
      {"kill", Victim::rank, SIGKILL, none, {Cause::killed}},
      {"segv", Victim::rank, SIGSEGV, none, {Cause::crashed}},
      {"stop", Victim::rank, SIGSTOP, none, {Cause::hang}},
      {"hang", Victim::rank, 0, InjectedFault::hang, {Cause::hang}},
      {"slow", Victim::rank, 0, InjectedFault::slow, {}},
      {"nan", Victim::rank, 0, InjectedFault::nan, {Cause::numerics}},
      {"flip", Victim::rank, 0, InjectedFault::flip, {Cause::corruption}, true},
      {"xid", Victim::rank, 0, InjectedFault::xid, {Cause::gpu_failed}, true},
      {"full-disk", Victim::rank, 0, InjectedFault::full_disk, {}},
      {"corrupt", Victim::copy, 0, none, {}},
      {"mpirun", Victim::launcher, SIGKILL, none, {Cause::launcher_killed}},
      {"daemon", Victim::daemon, SIGKILL, none, {Cause::node_lost}},
      {"node", Victim::host, 0, none, {Cause::node_lost, Cause::hang}, true},
      {"link", Victim::host, 0, none, {Cause::node_lost, Cause::hang}, true},
      {"term", Victim::supervisor, SIGTERM, none, {Cause::stopped}},
  };
  return kinds;
}

bool FaultKind::is_expected(Cause cause) const {
  return std::find(causes.begin(), causes.end(), cause) != causes.end();
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
  if (const Json* compares = json->find("compares"))
    if (const auto* yes = std::get_if<bool>(&compares->value)) offer.compares = *yes;
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

std::vector<int> ranks_to_ask(const FaultKind& kind, const std::string& pages) {
  std::vector<int> ranks;
  for (const std::string& path : observe::find_pages(pages)) {
    try {
      const observe::PageState page = observe::PageReader(path).read();
      // Rank 0 writes the file of steps as well, without which the job cannot continue.
      const bool may = kind.injected != observe::InjectedFault::full_disk || page.rank > 0;
      if (may && !page.has_ended()) ranks.push_back(page.rank);
    } catch (const Error&) {  // of another version
    }
  }
  return ranks;
}

FaultDesk::FaultDesk(const Paths& paths, double hang_s, std::string variable, bool compares)
    : paths_(paths), variable_(std::move(variable)), token_(new_token()) {
  withdraw_request(paths_);
  write_private(
      offer_path(paths_),
      to_text(Json::Object{
          {"run", paths_.run}, {"token", token_}, {"hang_s", hang_s}, {"compares", compares}}));
}

FaultDesk::~FaultDesk() {
  ::unlink(offer_path(paths_).c_str());
  ::unlink(request_path(paths_).c_str());
}

std::optional<FaultOrder> FaultDesk::read(const Scene& scene) const {
  if (scene.mpirun <= 0 || !is_pending(paths_)) return std::nullopt;
  const std::optional<Json> request = read_json(request_path(paths_));
  try {
    require(request && text_in(*request, "token") == token_,
            "a request without the token of this supervisor");
    const std::string name = text_in(*request, "kind");
    const FaultKind* kind = find_fault_kind(name);
    require(kind != nullptr, "a request for '", name, "', which is no kind of fault");
    check_hosts(*kind, scene);
    FaultOrder order{{scene.attempt, scene.date, name, ""}};
    choose_victim(*kind, scene, *request, order);
    return order;
  } catch (const Error&) {
    withdraw_request(paths_);
    throw;
  }
}

void FaultDesk::strike(const FaultOrder& order) const {
  withdraw_request(paths_);
  if (!order.page.empty())
    observe::inject(order.page, order.injection);
  else if (order.process == ::getpid())
    ::kill(order.process, order.signal);
  else if (order.process > 0)
    signal_if_it_has(order.process, variable_, order.signal);
}

namespace {

/// The desk of a machine, for as long as requests can be withdrawn.
class Faults {
 public:
  Faults(Machine& machine, double hang_s, bool compares)
      : machine_(machine),
        desk_(std::in_place, machine.paths(), hang_s, machine.variable(), compares) {}

  void meet_request() {
    try {
      if (!desk_ || !is_pending(machine_.paths())) return;
      const std::optional<FaultOrder> order = desk_->read(machine_.scene());
      if (!order) return;
      machine_.files().append(to_json(order->fault));  // before anything is done
      machine_.log(str("chaos: ", order->fault.kind, ": ", order->fault.victim));
      desk_->strike(*order);
    } catch (const Error& error) {
      machine_.log(str("chaos: refused: ", error.what()));
      drop_request();
    }
  }

 private:
  /// Whatever the reason, as a full disk: a request that stays would be met again at each look.
  void drop_request() {
    try {
      withdraw_request(machine_.paths());
    } catch (const Error& error) {
      machine_.log(str("chaos: no more faults are taken: ", error.what()));
      desk_.reset();
    }
  }

  Machine& machine_;
  std::optional<FaultDesk> desk_;
};

}  // namespace

void accept_faults(Machine& machine, double hang_s, bool compares) {
  machine.at_each_observation(
      [faults = std::make_shared<Faults>(machine, hang_s, compares)] { faults->meet_request(); });
}

}  // namespace trireme::supervisor
