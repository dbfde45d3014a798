#include "launch/supervisor/machine/page_collector.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <sstream>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/run_directory.h"
#include "runtime/core/process/private_directory.h"
#include "runtime/core/require_call.h"
#include "runtime/core/seconds_since.h"
#include "runtime/observe/page_mapping.h"
#include "runtime/observe/remote/page_agent.h"
#include "runtime/observe/status_page.h"

namespace trireme::supervisor {
namespace {

using observe::PageLayout;
using observe::PageMessage;
using observe::PageNote;
using observe::ReceivedMessage;

constexpr std::size_t most_unknown = 64;  // connections that have not said the token yet
constexpr double hello_s = 5;             // in which it must come
constexpr double longest_answer_s = 30;   // of agents that send other things meanwhile

/// In digits; empty: an address that other machines cannot reach.
std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    ::inet_ntop(AF_INET, &four->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(address);
    if (!IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr))  // which counts within one network only
      ::inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
  }
  return text;
}

/// Of this machine, as others reach it, those of IPv4 first; that of its loopback device where
/// there is no other.
std::vector<std::string> own_addresses() {
  std::vector<std::string> four, six;
  ifaddrs* all = nullptr;
  require_call(::getifaddrs(&all) == 0, "getifaddrs");
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const bool up = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (!up || one->ifa_addr == nullptr) continue;
    const std::string text = text_of(one->ifa_addr);
    if (!text.empty()) (one->ifa_addr->sa_family == AF_INET ? four : six).push_back(text);
  }
  ::freeifaddrs(all);
  four.insert(four.end(), six.begin(), six.end());
  if (four.empty()) four.emplace_back("127.0.0.1");
  return four;
}

/// Nothing for a connection within this machine, both ends of which have one address.
std::optional<std::string> other_machine_of(int socket) {
  sockaddr_storage own{}, peer{};
  socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
  auto* own_address = reinterpret_cast<sockaddr*>(&own);
  auto* peer_address = reinterpret_cast<sockaddr*>(&peer);
  if (::getsockname(socket, own_address, &own_bytes) != 0 ||
      ::getpeername(socket, peer_address, &peer_bytes) != 0)
    return {};
  const std::string other = text_of(peer_address);
  return other == text_of(own_address) ? std::nullopt : std::optional(other);
}

/// A socket that listens, and its port; -1: there is none, and errno says why.
int listen_at(int family, int& port) {
  const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return -1;
  sockaddr_storage any{};  // of IPv4 or IPv6: zeros are any address, and any port
  any.ss_family = static_cast<sa_family_t>(family);
  socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  auto* address = reinterpret_cast<sockaddr*>(&any);
  const int no = 0;
  const bool takes_both =
      family == AF_INET || ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0;
  if (takes_both && ::bind(socket, address, bytes) == 0 && ::listen(socket, SOMAXCONN) == 0 &&
      ::getsockname(socket, address, &bytes) == 0) {
    port = ntohs(family == AF_INET ? reinterpret_cast<const sockaddr_in*>(&any)->sin_port
                                   : reinterpret_cast<const sockaddr_in6*>(&any)->sin6_port);
    return socket;
  }
  const int reason = errno;
  ::close(socket);
  errno = reason;
  return -1;
}

}  // namespace

struct PageCollector::Agent {
  explicit Agent(int socket) : connection(socket), other_machine(other_machine_of(socket)) {}
  observe::PageConnection connection;
  const std::optional<std::string> other_machine;  // its address
  std::chrono::steady_clock::time_point heard = std::chrono::steady_clock::now();
  bool known = false;  // has said the token
  bool gone = false;
  int answered = 0;  // the newest request that it has answered
  std::optional<ReceivedMessage> stack;

  /// It notices that, and removes the pages of its node once their ranks have ended.
  void end() {
    gone = true;
    ::shutdown(connection.socket(), SHUT_RDWR);
  }
};

struct PageCollector::Copy {
  observe::PageMapping file;
  PageNote note;
  std::int64_t clock_ahead_ns = 0;
  Agent* agent = nullptr;
};

PageCollector::PageCollector(std::string directory, int ranks)
    : directory_(std::move(directory)), ranks_(ranks) {
  copies_.resize(static_cast<std::size_t>(ranks));
  make_private_directory(directory_);
  address_.token = new_token();
  address_.addresses = own_addresses();
  listen();
}

PageCollector::~PageCollector() {
  if (socket_ >= 0) ::close(socket_);
}

void PageCollector::listen() {
  socket_ = listen_at(AF_INET6, address_.port);  // IPv4 as well
  if (socket_ < 0) socket_ = listen_at(AF_INET, address_.port);
  require_call(socket_ >= 0, "a port for status pages");
}

void PageCollector::take_connections() {
  for (;;) {
    const int socket = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) return;
    const int now = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now);
    agents_.push_back(std::make_unique<Agent>(socket));
  }
}

/// Connections without the token: those that have ended, those that have not sent it in time, and
/// the oldest of too many. An agent that has ended stays, since copies of pages refer to it.
void PageCollector::drop_unknown() {
  const auto unknown = [](const auto& agent) { return !agent->known; };
  std::size_t most_to_drop =
      static_cast<std::size_t>(std::count_if(agents_.begin(), agents_.end(), unknown));
  most_to_drop -= std::min(most_to_drop, most_unknown);
  std::erase_if(agents_, [&](const auto& agent) {
    if (agent->known) return false;
    if (agent->gone || seconds_since(agent->heard) > hello_s) return true;
    if (most_to_drop == 0) return false;
    --most_to_drop;
    return true;
  });
}

void PageCollector::poll() {
  take_connections();
  for (const auto& agent : agents_) {
    if (agent->gone) continue;
    receive(*agent);
    if (agent->gone) agent->end();
  }
  drop_unknown();
}

void PageCollector::receive(Agent& agent) {
  const std::size_t most = agent.known ? observe::PageConnection::most_bytes : 64;
  if (!agent.connection.receive(most)) agent.gone = true;
  while (const auto message = agent.connection.next()) {
    if (receive(agent, *message)) continue;
    agent.gone = true;
    return;
  }
}

bool PageCollector::receive(Agent& agent, const ReceivedMessage& message) {
  if (!agent.known) {
    agent.known =
        message.kind == PageMessage::hello && observe::same_secret(message.body, address_.token);
    return agent.known;
  }
  agent.heard = std::chrono::steady_clock::now();
  switch (message.kind) {
    case PageMessage::page:
      return take_page(agent, message);
    case PageMessage::answered:
      agent.answered = message.rank;
      return true;
    case PageMessage::stack:
      agent.stack = message;
      return true;
    case PageMessage::alive:
      return true;
    case PageMessage::hello:
    case PageMessage::ask:
    case PageMessage::ask_stack:
    case PageMessage::count:
      return false;
  }
  return false;
}

bool PageCollector::take_page(Agent& agent, const ReceivedMessage& message) {
  const std::size_t bytes = message.body.size() - std::min(message.body.size(), sizeof(PageNote));
  const bool whole = bytes == sizeof(PageLayout);
  if (message.rank < 0 || message.rank >= ranks_ || (!whole && bytes != observe::page_head_bytes))
    return false;
  PageNote note;
  std::memcpy(&note, message.body.data(), sizeof note);
  const char* begin = message.body.data() + sizeof note;
  observe::PageHeader header;
  std::memcpy(&header, begin, sizeof header);
  if (header.magic != observe::page_magic || header.version != observe::page_version ||
      header.bytes != sizeof(PageLayout) || header.rank != message.rank || header.ranks != ranks_)
    return false;
  auto& copy = copies_[static_cast<std::size_t>(message.rank)];
  if (!copy) {
    if (!whole) return true;  // the next whole one is taken
    auto fresh = std::make_unique<Copy>();
    try {
      fresh->file = observe::PageMapping::create(
          observe::page_path(directory_, message.rank), observe::page_bytes,
          [&](void* data) { std::memcpy(data, begin, bytes); });
    } catch (const Error&) {  // memory is full: the job can do without
      return true;
    }
    copy = std::move(fresh);
  } else {
    std::memcpy(copy->file.data(), begin, bytes);
  }
  copy->note = note;
  copy->note.wait_channel.back() = '\0';
  copy->clock_ahead_ns = note.clock_ns - observe::now_ns();
  copy->agent = &agent;
  return true;
}

void PageCollector::request(double silent_s) {
  poll();
  ++asked_;
  for (const auto& agent : agents_)
    if (agent->known && !agent->gone &&
        !agent->connection.send(PageMessage::ask, asked_, "", false))
      agent->end();
  const auto waits = [&](const auto& agent) {
    return agent->known && !agent->gone && agent->answered < asked_ &&
           seconds_since(agent->heard) < silent_s;
  };
  const auto began = std::chrono::steady_clock::now();
  while (std::any_of(agents_.begin(), agents_.end(), waits) &&
         seconds_since(began) < longest_answer_s) {
    constexpr int pause_ms = 5;
    ::poll(nullptr, 0, pause_ms);
    poll();
  }
}

bool PageCollector::any_answers_within(double silent_s) const {
  const auto is_connected = [](const auto& agent) { return agent->known && !agent->gone; };
  std::set<std::string> others;
  for (const auto& agent : agents_)
    if (is_connected(agent) && agent->other_machine) others.insert(*agent->other_machine);
  const bool only_others = others.size() > 1;
  return std::any_of(agents_.begin(), agents_.end(), [&](const auto& agent) {
    return is_connected(agent) && (agent->other_machine || !only_others) &&
           seconds_since(agent->heard) < silent_s;
  });
}

std::optional<PageCollector::RemoteRank> PageCollector::find(int rank) const {
  const auto& copy = copies_[static_cast<std::size_t>(rank)];
  if (!copy) return {};
  RemoteRank found;
  found.running = copy->note.running != 0;
  found.state = {copy->note.state, copy->note.started_ticks, copy->note.tracer_pid,
                 copy->note.wait_channel.data()};
  found.clock_ahead_ns = copy->clock_ahead_ns;
  found.heard_s = seconds_since(copy->agent->heard);
  found.connected = !copy->agent->gone;
  return found;
}

observe::NamedStack PageCollector::stack_of(int rank, double seconds) {
  const auto& copy = copies_[static_cast<std::size_t>(rank)];
  if (!copy) return {{}, "it has no status page"};
  Agent& agent = *copy->agent;
  agent.stack.reset();
  if (!agent.gone && !agent.connection.send(PageMessage::ask_stack, rank, "", false)) agent.end();
  if (agent.gone) return {{}, "its machine does not answer"};
  const auto began = std::chrono::steady_clock::now();
  while (!(agent.stack && agent.stack->rank == rank)) {
    if (agent.gone || seconds_since(began) > seconds) return {{}, "its machine does not answer"};
    ::poll(nullptr, 0, 5);
    poll();
  }
  observe::NamedStack stack;
  std::istringstream lines(agent.stack->body);
  std::getline(lines, stack.why);
  for (std::string line; std::getline(lines, line);) stack.frames.push_back(line);
  return stack;
}

}  // namespace trireme::supervisor
