// Stranger: a connection to a PageCollector that is no agent's.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/page_collector.h"
#include "runtime/observe/page_reader.h"
#include "runtime/observe/remote/page_connection.h"

namespace trireme::supervisor::test {

class Stranger {
 public:
  /// `from`: its address; another one of the loopback device, such as 0x7f000002, is that of
  /// another machine to the collector.
  explicit Stranger(int port, std::uint32_t from = INADDR_LOOPBACK)
      : connection_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own{}, to{};
    own.sin_family = to.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(from);
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int socket = connection_.socket();
    require(::bind(socket, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0, "bind");
    require(::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0, "connect");
  }
  void say(std::string_view bytes) {
    ::send(connection_.socket(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// Says what an agent says first: the token, and the page of a rank that runs.
  void show(const std::string& token, int rank, const observe::PageReader& page) {
    connection_.send(observe::PageMessage::hello, -1, token, true);
    observe::PageNote note;
    note.running = 1;
    std::string body(reinterpret_cast<const char*>(&note), sizeof note);
    body.append(reinterpret_cast<const char*>(&page.raw()), sizeof(observe::PageLayout));
    connection_.send(observe::PageMessage::page, rank, body, true);
  }
  observe::PageConnection& connection() { return connection_; }
  /// Whether the collector has closed the connection.
  bool is_dropped(PageCollector& collector) {
    for (int i = 0; i < 30000; ++i) {
      collector.poll();
      if (!connection_.receive()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

 private:
  observe::PageConnection connection_;
};

}  // namespace trireme::supervisor::test
