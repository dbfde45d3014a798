// PageConnection: messages about status pages over TCP, between the agent of a node (PageAgent) and
// the supervisor of the job. What the other end sends is checked: any process may connect.
//
// Not installed; modules above may include it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::observe {

enum class PageMessage : std::uint32_t {
  // From an agent.
  hello,     // the first one: the token
  page,      // PageNote, and the begin of the page of `rank`
  alive,     // nothing has changed
  answered,  // all pages have been sent since the request of the number in `rank`
  stack,     // stack of `rank`: why it is missing, and its frames, a line each
  // From the supervisor.
  ask,        // for all pages; its number in `rank`
  ask_stack,  // for that of `rank`
  count
};

/// What the kernel says about the process of a page, and the clock of its machine.
struct PageNote {
  std::int64_t clock_ns = 0;  // now_ns() there
  std::int64_t started_ticks = -1, tracer_pid = 0;
  std::uint8_t running = 0;  // 0: it has ended
  char state = '?';
  std::array<char, 38> wait_channel{};
};
static_assert(sizeof(PageNote) == 64);

struct ReceivedMessage {
  PageMessage kind = PageMessage::alive;
  std::int32_t rank = -1;
  std::string body;
};

class PageConnection {
 public:
  static constexpr std::size_t most_bytes = std::size_t{1} << 16;  // limit for a body

  explicit PageConnection(int socket) : socket_(socket) {}
  ~PageConnection();
  PageConnection(PageConnection&& other) noexcept;
  PageConnection& operator=(PageConnection&&) = delete;

  int socket() const { return socket_; }
  /// False when the other end is gone, or `waits` is false and there is no space for all of it.
  bool send(PageMessage kind, std::int32_t rank, std::string_view body, bool waits);
  /// Takes the bytes that have come, without waiting. False when the other end has closed, or has
  /// sent what is no message. `most`: of a body.
  bool receive(std::size_t most = most_bytes);
  /// The next message that has come whole.
  std::optional<ReceivedMessage> next();

 private:
  int socket_ = -1;
  std::string bytes_;
  std::size_t begin_ = 0;  // where what next() has not returned begins
};

/// Whether two texts are equal, in a time that does not depend on where they differ.
bool same_secret(std::string_view one, std::string_view other);

}  // namespace trireme::observe
