#include "runtime/observe/remote/page_agent.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/process/child.h"
#include "runtime/core/seconds_since.h"
#include "runtime/observe/hang/verdict.h"
#include "runtime/observe/stack/stack_capture.h"
#include "runtime/observe/status_page.h"

namespace trireme::observe {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int look_ms = 200;
constexpr double stack_s = 2;
// Whole pages are for people and for slow ranks: 64 of them a second from all nodes together.
constexpr double least_whole_s = 1, pages_a_second = 64;

/// To connect to a supervisor.
struct Attempt {
  PageConnection connection;
  std::string failed;  // empty: it is connected; otherwise why not
};

/// Waits until it is connected.
std::string connect_to(int socket, const addrinfo& address, int wait_ms) {
  const int flags = ::fcntl(socket, F_GETFL);
  ::fcntl(socket, F_SETFL, flags | O_NONBLOCK);
  if (::connect(socket, address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return std::strerror(errno);
    pollfd out{socket, POLLOUT, 0};
    if (::poll(&out, 1, wait_ms) != 1) return "no answer";
    int error = 0;
    socklen_t bytes = sizeof error;
    ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) return std::strerror(error);
  }
  ::fcntl(socket, F_SETFL, flags);
  return "";
}

/// `address`: in digits, of IPv4 or IPv6.
Attempt try_to_connect(const std::string& address, int port, int wait_ms) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  const int error = ::getaddrinfo(address.c_str(), str(port).c_str(), &wanted, &found);
  if (error != 0) return {PageConnection(-1), ::gai_strerror(error)};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  Attempt attempt{PageConnection(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0)), ""};
  const int socket = attempt.connection.socket();
  attempt.failed = socket < 0 ? std::strerror(errno) : connect_to(socket, *found, wait_ms);
  return attempt;
}

/// The end of a supervisor's machine is noticed within a minute; while data is under way to it,
/// when TCP gives up, after a quarter of an hour.
void keep_alive(int socket) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 6);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

template <class T>
std::string_view bytes_of(const T& value, std::size_t bytes = sizeof(T)) {
  return {reinterpret_cast<const char*>(&value), bytes};
}

}  // namespace

std::string to_text(const SupervisorAddress& address) {
  std::string text = str(address.port, ":", address.token, ":");
  for (std::size_t i = 0; i < address.addresses.size(); ++i)
    text += (i == 0 ? "" : ",") + address.addresses[i];
  return text;
}

SupervisorAddress parse_supervisor_address(const std::string& text) {
  SupervisorAddress address;
  const std::size_t first = text.find(':'), second = text.find(':', first + 1);
  const bool has_parts = first != std::string::npos && second != std::string::npos;
  constexpr std::size_t most_digits = 5;
  constexpr int most_port = 65535;
  if (has_parts && first > 0 && first <= most_digits &&
      text.find_first_not_of("0123456789") == first) {
    address.port = std::stoi(text.substr(0, first));
    address.token = text.substr(first + 1, second - first - 1);
    for (std::size_t at = second + 1; at < text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      if (end > at) address.addresses.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  require(address.port > 0 && address.port <= most_port && !address.token.empty() &&
              !address.addresses.empty(),
          "TRIREME_PAGES_TO: expected PORT:TOKEN:ADDRESS,ADDRESS");
  return address;
}

struct PageAgent::Seen {
  explicit Seen(const std::string& file) : path(file), reader(file) {}
  /// Updates what the kernel says; false once the process has ended.
  void look() {
    note = PageNote();
    const PageHeader& header = reader.raw().header;
    const auto state = read_process_state(header.pid);
    note.clock_ns = now_ns();
    if (!state || state->started_ticks != header.started_ticks) return;
    note.running = state->state == 'Z' || state->state == 'X' ? 0 : 1;
    note.state = state->state;
    note.started_ticks = state->started_ticks;
    note.tracer_pid = state->tracer_pid;
    const std::size_t most = note.wait_channel.size() - 1;
    std::copy_n(state->wait_channel.begin(), std::min(state->wait_channel.size(), most),
                note.wait_channel.begin());
  }

  std::string path;
  PageReader reader;
  PageNote note;
  std::string sent;         // the begin of the page, when it was sent last
  std::uint64_t named = 0;  // the coordinates that were sent last
};

PageAgent::PageAgent(std::string directory) : directory_(std::move(directory)) {}
PageAgent::~PageAgent() = default;

void PageAgent::connect(const SupervisorAddress& address, double seconds) {
  const auto began = Clock::now();
  std::string why;
  do {
    for (const std::string& one : address.addresses) {
      constexpr int wait_ms = 1000;
      auto [connection, failed] = try_to_connect(one, address.port, wait_ms);
      why = failed.empty() ? "the connection was closed" : failed;
      if (!failed.empty() || !connection.send(PageMessage::hello, -1, address.token, true))
        continue;
      keep_alive(connection.socket());
      connection_ = std::make_unique<PageConnection>(std::move(connection));
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(look_ms));
  } while (seconds_since(began) < seconds);
  throw Error(str("the supervisor cannot be reached at ", address.addresses.back(), ", port ",
                  address.port, ": ", why));
}

void PageAgent::find_new_pages() {
  for (const std::string& path : find_pages(directory_)) {
    const auto known = [&](const auto& page) { return page->path == path; };
    if (std::any_of(pages_.begin(), pages_.end(), known)) continue;
    try {
      pages_.push_back(std::make_unique<Seen>(path));
    } catch (const Error&) {  // another version, or removed meanwhile
    }
  }
}

bool PageAgent::all_have_ended() const {
  return !pages_.empty() && std::all_of(pages_.begin(), pages_.end(),
                                        [](const auto& page) { return page->note.running == 0; });
}

bool PageAgent::send_pages(bool whole) {
  bool sent = false;
  for (const auto& page : pages_) {
    const bool did_run = page->note.running != 0;
    page->look();
    // Coordinates are set once: a reader need not wait for the next whole page.
    const std::uint64_t named = page->reader.raw().coordinates.sequence();
    const bool all =
        whole || page->sent.empty() || named != page->named || (did_run && page->note.running == 0);
    std::string body(bytes_of(page->note));
    if (all) {
      const auto copy = std::make_unique<PageLayout>();
      copy_page(page->reader.raw(), *copy);
      body += bytes_of(*copy);
      page->named = named;
    } else {
      body += bytes_of(page->reader.raw(), page_head_bytes);
    }
    const std::string head = body.substr(sizeof(PageNote), page_head_bytes);
    if (!all && head == page->sent) continue;
    page->sent = head;
    sent = true;
    const int rank = page->reader.raw().header.rank;
    if (!connection_->send(PageMessage::page, rank, body, true)) return false;
  }
  return sent || connection_->send(PageMessage::alive, -1, "", true);
}

bool PageAgent::answer(const ReceivedMessage& message) {
  if (message.kind == PageMessage::ask)
    return send_pages(true) && connection_->send(PageMessage::answered, message.rank, "", true);
  if (message.kind != PageMessage::ask_stack) return true;
  std::string text = "there is no page of this rank";
  for (const auto& page : pages_) {
    if (page->reader.raw().header.rank != message.rank) continue;
    const NamedStack stack = capture_stack(page->reader, stack_s);
    text = stack.why;
    for (const std::string& frame : stack.frames) text += '\n' + frame;
  }
  text.resize(std::min(text.size(), PageConnection::most_bytes));
  return connection_->send(PageMessage::stack, message.rank, text, true);
}

void PageAgent::serve() {
  auto whole_at = Clock::now();
  for (;;) {
    find_new_pages();
    const int ranks = pages_.empty() ? 1 : pages_.front()->reader.raw().header.ranks;
    const bool whole = seconds_since(whole_at) >= std::max(least_whole_s, ranks / pages_a_second);
    if (whole) whole_at = Clock::now();
    if (!send_pages(whole)) return;
    if (!cleaned_ && all_have_ended()) {
      clean();  // a scheduler may end this process as soon as its ranks have ended
      cleaned_ = true;
    }
    pollfd in{connection_->socket(), POLLIN, 0};
    if (::poll(&in, 1, look_ms) <= 0) continue;
    if (!connection_->receive()) return;
    while (const auto message = connection_->next())
      if (!answer(*message)) return;
  }
}

void PageAgent::wait_for_ranks() {
  std::error_code ignored;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(look_ms));
    find_new_pages();
    for (const auto& page : pages_) page->look();
    // The next attempt may have removed the pages before any was found.
  } while (pages_.empty() ? fs::exists(directory_, ignored) : !all_have_ended());
}

void PageAgent::clean() const {
  const fs::path attempt = fs::path(directory_).parent_path();
  std::error_code ignored;
  const auto remove_pages = [&](const fs::path& folder) {
    for (const std::string& page : find_pages((folder / "pages").string()))
      fs::remove(page, ignored);
    fs::remove(folder / "pages", ignored);
    fs::remove(folder, ignored);  // where it is empty
  };
  remove_pages(attempt);
  // Agents of earlier attempts may have been killed with their ranks. "trireme-KEY-a7"
  const std::string name = attempt.filename().string();
  const std::size_t number = name.rfind("-a");
  if (!name.starts_with("trireme-") || number == std::string::npos) return;
  std::vector<fs::path> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(attempt.parent_path(), ignored)) {
    const std::string other = entry.path().filename().string();
    const bool is_attempt =
        other.starts_with(name.substr(0, number + 2)) &&
        std::atoll(other.c_str() + number + 2) < std::atoll(name.c_str() + number + 2);
    if (is_attempt) others.push_back(entry.path());
  }
  for (const fs::path& other : others) remove_pages(other);
}

namespace {

template <class T>
void copy_record(const SequenceLocked<T>& from, SequenceLocked<T>& to) {
  T words;
  if (from.read(words)) {
    to.reset();
    to.write(words);
  } else {
    to.write_unfinished(words);
  }
}

}  // namespace

void copy_page(const PageLayout& from, PageLayout& to) {
  std::memcpy(static_cast<void*>(&to), static_cast<const void*>(&from), sizeof(PageLayout));
  copy_record(from.place, to.place);
  copy_record(from.wait, to.wait);
  copy_record(from.error, to.error);
  copy_record(from.coordinates, to.coordinates);
  copy_record(from.stack, to.stack);
  for (std::size_t i = 0; i < from.step_ring.size(); ++i)
    copy_record(from.step_ring[i], to.step_ring[i]);
  for (std::size_t i = 0; i < from.operation_ring.size(); ++i)
    copy_record(from.operation_ring[i], to.operation_ring[i]);
}

void start_agent(const std::string& program, const std::string& directory) {
  ChildOptions options{.output = ChildOptions::Output::file,
                       .file = "/dev/null",  // the launcher waits until its own is closed
                       .errors = false,
                       .outlives = true};
  std::erase_if(options.environment, [](const std::string& variable) {  // which make it a rank
    return variable.starts_with("OMPI_") || variable.starts_with("PMIX_");
  });
  const Child agent({program, "report-pages", directory}, std::move(options));
}

}  // namespace trireme::observe
