#include "runtime/observe/stack/stack_capture.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include <execinfo.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/observe/process_state.h"
#include "runtime/observe/stack/stack_names.h"

namespace trireme::observe {
namespace {

// A signal handler has no argument to find its page by.
std::atomic<PageLayout*> captured_page{nullptr};
std::atomic<bool> capturing{false};  // a second thread may get the signal meanwhile

/// Where the signal interrupted its thread: the frames before it are those of the handler.
void* interrupted_at(void* context) {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return reinterpret_cast<void*>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<void*>(machine.pc);
#else
  return nullptr;
#endif
}

void write_stack(int /*signal*/, siginfo_t* /*info*/, void* context) {
  const int saved_errno = errno;
  if (!capturing.exchange(true)) {
    if (PageLayout* page = captured_page.load()) {
      StackWords words{};
      void* frames[StackWords::most];
      const int count = ::backtrace(frames, static_cast<int>(StackWords::most));
      words.captured_ns = now_ns();
      words.thread = ::syscall(SYS_gettid);
      void** const end = frames + count;
      void** begin = std::find(frames, end, interrupted_at(context));
      if (begin == end) begin = frames;
      words.count = static_cast<std::uint64_t>(end - begin);
      std::transform(begin, end, words.frames.begin(),
                     [](void* frame) { return reinterpret_cast<std::uintptr_t>(frame); });
      page->stack.write(words);
    }
    capturing.store(false);
  }
  errno = saved_errno;
}

/// Otherwise SIGUSR2 would end it.
bool catches_signal(std::int64_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  constexpr std::string_view key = "SigCgt:\t";
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key))
      return (std::strtoull(line.c_str() + key.size(), nullptr, 16) >> (SIGUSR2 - 1)) % 2 == 1;
  return false;
}

std::string no_answer(std::int64_t pid, const ProcessState& process) {
  return fmt::format("process {} does not answer SIGUSR2: state {}{}{}", pid, process.state,
                     process.wait_channel.empty() ? "" : " in ", process.wait_channel);
}

}  // namespace

StackCapture::StackCapture(StatusPage& page) {
  if (!page.on()) return;
  void* frames[2];
  ::backtrace(frames, 2);  // loads libgcc, which a signal handler must not do
  PageLayout* none = nullptr;
  require(captured_page.compare_exchange_strong(none, page.page_),
          "StackCapture: this process has one already");
  struct sigaction action {};
  action.sa_sigaction = write_stack;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  if (::sigaction(SIGUSR2, &action, &before_) != 0) {
    const int error = errno;
    captured_page = nullptr;
    throw Error(str("SIGUSR2: sigaction: ", std::strerror(error)));
  }
  installed_ = true;
}

StackCapture::~StackCapture() {
  if (!installed_) return;
  // A collector that has seen the handler may send its signal only now: it must not end the rank.
  if (before_.sa_handler == SIG_DFL) before_.sa_handler = SIG_IGN;
  ::sigaction(SIGUSR2, &before_, nullptr);
  captured_page = nullptr;
  while (capturing.load()) std::this_thread::yield();  // in another thread
}

NamedStack capture_stack(const PageReader& page, double seconds) {
  const PageState before = page.read();
  const auto process = read_process_state(before.pid);
  if (!process || process->started_ticks != before.started_ticks)
    return {{}, fmt::format("process {} has ended", before.pid)};
  if (!catches_signal(before.pid))
    return {{}, fmt::format("process {} does not catch SIGUSR2", before.pid)};
  // It would answer when it continues, which a job that is to be ended does not wait for.
  if (process->state == 'T') return {{}, no_answer(before.pid, *process)};
  if (::kill(static_cast<pid_t>(before.pid), SIGUSR2) != 0)
    return {{}, fmt::format("process {}: kill: {}", before.pid, std::strerror(errno))};
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const PageState now = page.read();
    if (now.stacks_captured != before.stacks_captured) return {name_frames(now.pid, now.stack), ""};
  } while (Clock::now() < end);
  return {{}, no_answer(before.pid, *process)};
}

}  // namespace trireme::observe
