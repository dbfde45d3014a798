#include "runtime/observe/remote/page_connection.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace trireme::observe {
namespace {

constexpr std::uint32_t message_magic = 0x31475054;  // "TPG1"

struct MessageHeader {
  std::uint32_t magic = message_magic;
  PageMessage kind = PageMessage::alive;
  std::int32_t rank = -1;
  std::uint32_t bytes = 0;
};

MessageHeader header_in(std::string_view bytes) {
  MessageHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

bool is_valid(const MessageHeader& header, std::size_t most) {
  return header.magic == message_magic && header.kind < PageMessage::count && header.bytes <= most;
}

}  // namespace

PageConnection::~PageConnection() {
  if (socket_ >= 0) ::close(socket_);
}

PageConnection::PageConnection(PageConnection&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      bytes_(std::move(other.bytes_)),
      begin_(std::exchange(other.begin_, 0)) {}

bool PageConnection::send(PageMessage kind, std::int32_t rank, std::string_view body, bool waits) {
  const MessageHeader header{message_magic, kind, rank, static_cast<std::uint32_t>(body.size())};
  std::string all(sizeof header, '\0');
  std::memcpy(all.data(), &header, sizeof header);
  all += body;
  const int flags = MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT);
  for (std::string_view rest = all; !rest.empty();) {
    const ssize_t sent = ::send(socket_, rest.data(), rest.size(), flags);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool PageConnection::receive(std::size_t most) {
  constexpr std::size_t at_once = std::size_t{1} << 20;  // then others have their turn
  std::array<char, 1 << 13> buffer;                      // a stack may be small (ulimit -s)
  bytes_.erase(0, std::exchange(begin_, 0));
  for (std::size_t taken = 0; taken < at_once;) {
    const ssize_t bytes = ::recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (bytes <= 0) return false;
    taken += static_cast<std::size_t>(bytes);
    bytes_.append(buffer.data(), static_cast<std::size_t>(bytes));
    if (bytes_.size() >= sizeof(MessageHeader) && !is_valid(header_in(bytes_), most)) return false;
  }
  return true;
}

std::optional<ReceivedMessage> PageConnection::next() {
  const std::string_view rest = std::string_view(bytes_).substr(begin_);
  if (rest.size() < sizeof(MessageHeader)) return {};
  const MessageHeader header = header_in(rest);
  if (!is_valid(header, most_bytes)) return {};  // receive() refuses it when more comes
  const std::size_t bytes = sizeof header + header.bytes;
  if (rest.size() < bytes) return {};
  begin_ += bytes;
  return ReceivedMessage{header.kind, header.rank,
                         std::string(rest.substr(sizeof header, header.bytes))};
}

bool same_secret(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  return difference == 0;
}

}  // namespace trireme::observe
