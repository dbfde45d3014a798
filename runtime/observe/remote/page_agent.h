// PageAgent: sends the status pages of a node to the supervisor of the job, which runs on another
// machine, and removes them when the supervisor ends the connection. It is a process of its own,
// since a rank that is stopped would report nothing.
//
// Not installed; modules above may include it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "runtime/observe/page_layout.h"
#include "runtime/observe/page_reader.h"
#include "runtime/observe/remote/page_connection.h"

namespace trireme::observe {

/// Where a supervisor listens: "PORT:TOKEN:ADDRESS,ADDRESS", the content of $TRIREME_PAGES_TO.
struct SupervisorAddress {
  int port = 0;
  std::string token;
  std::vector<std::string> addresses;  // IPv4 or IPv6, in digits
};
std::string to_text(const SupervisorAddress& address);
/// Throws: Error when it is none.
SupervisorAddress parse_supervisor_address(const std::string& text);

class PageAgent {
 public:
  /// `directory`: of the pages.
  explicit PageAgent(std::string directory);
  ~PageAgent();

  /// Throws: Error that says why, when the supervisor cannot be reached in `seconds`.
  void connect(const SupervisorAddress& address, double seconds);
  /// Returns when the supervisor ends the connection.
  void serve();
  /// Waits, without a connection, until all ranks have ended.
  void wait_for_ranks();
  /// Removes the pages, and those of other attempts of this run.
  void clean() const;

 private:
  struct Seen;
  void find_new_pages();
  bool all_have_ended() const;
  bool send_pages(bool whole);
  bool answer(const ReceivedMessage& message);

  const std::string directory_;
  std::unique_ptr<PageConnection> connection_;
  std::vector<std::unique_ptr<Seen>> pages_;
  bool cleaned_ = false;
};

// Copies of a status page, made while its rank writes into it.

/// The words at the begin of a page that show whether its rank moves.
inline constexpr std::size_t page_head_bytes = offsetof(PageLayout, place);

/// Each record as it was at one moment; one that its writer has not finished is unfinished in the
/// copy as well. `to` is a page of this process that no other thread reads.
void copy_page(const PageLayout& from, PageLayout& to);

/// Starts the process that has the PageAgent of this node: `program report-pages directory`, in a
/// session of its own, which outlives this process. Throws: Error when there is no such program.
/// Call it before this process has other threads.
void start_agent(const std::string& program, const std::string& directory);

}  // namespace trireme::observe
