#include "launch/supervisor/machine/terminal.h"

#include <atomic>
#include <chrono>
#include <regex>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme::supervisor {
namespace {

class Pipe {
 public:
  Pipe() { require(::pipe(ends_) == 0, "pipe"); }
  ~Pipe() {
    close_reader();
    close_writer();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int writer() const { return ends_[1]; }
  void close_reader() { close(0); }
  void close_writer() { close(1); }
  std::string read(std::size_t most) const {
    std::string text(most, '\0');
    const ssize_t bytes = ::read(ends_[0], text.data(), most);
    text.resize(bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
    return text;
  }
  std::string read_all() const {
    std::string all;
    for (std::string some; !(some = read(1 << 16)).empty();) all += some;
    return all;
  }

 private:
  void close(int end) {
    if (ends_[end] >= 0) ::close(ends_[end]);
    ends_[end] = -1;
  }
  int ends_[2];
};

const std::string piece(10'000, 'x');
constexpr int pieces = 400;  // of which a pipe takes 64 KiB

TEST(Terminal, ShowsAllInOrder) {
  Pipe out;
  {
    Terminal terminal(out.writer(), out.writer());
    terminal.show("step 1\n");
    terminal.log("attempt 2");
    terminal.show("step 2\n");
  }
  out.close_writer();
  EXPECT_THAT(out.read_all(), testing::MatchesRegex("step 1\n\\[....-..-.. ..:..:..\\] "
                                                    "trireme run: attempt 2\nstep 2\n"));
}

TEST(Terminal, WaitsForNoReaderThatReadsNothing) {
  static Pipe out;  // until the process ends, as the thread of this terminal may use it
  {
    Terminal terminal(out.writer(), out.writer());
    for (int i = 0; i < pieces; ++i) terminal.show(piece);
  }  // and none of it ends
  SUCCEED();
}

TEST(Terminal, SaysHowMuchItHasNotShown) {
  Pipe out, errors;
  std::atomic<std::size_t> shown = 0;
  std::thread reader;
  std::string said;
  {
    Terminal terminal(out.writer(), errors.writer());
    for (int i = 0; i < pieces; ++i) terminal.show(piece);
    reader = std::thread([&] {
      for (std::size_t some; (some = out.read(1 << 16).size()) > 0;) shown += some;
    });
    while (shown < Terminal::most_waiting / 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    terminal.log("an end");
    while (!said.ends_with("an end\n")) said += errors.read(1 << 12);
  }
  out.close_writer();
  reader.join();
  std::size_t not_shown = 0;  // the writer may have made space between two pieces
  const std::regex line("trireme run: ([0-9]+) bytes are not shown, as nothing took them");
  for (std::sregex_iterator found(said.begin(), said.end(), line), end; found != end; ++found)
    not_shown += std::stoul((*found)[1]);
  EXPECT_EQ(shown + not_shown, pieces * piece.size());
  EXPECT_LT(shown, pieces * piece.size());
  EXPECT_EQ(shown % piece.size(), 0U);
}

TEST(Terminal, OutlivesItsReader) {
  Pipe out;
  out.close_reader();
  Terminal terminal(out.writer(), out.writer());
  for (int i = 0; i < 3; ++i) terminal.show("unread");
}

}  // namespace
}  // namespace trireme::supervisor
