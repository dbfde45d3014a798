#include "launch/step_arguments.h"

#include <algorithm>
#include <iostream>
#include <thread>

#include <unistd.h>

#include "runtime/core/show_bytes.h"

namespace trireme {

OpenedStep step_at(std::string path, Index step) {
  constexpr std::size_t most_digits = 18;  // always an Index
  const std::size_t colon = path.rfind(':');
  const std::size_t digits = colon == std::string::npos ? 0 : path.size() - colon - 1;
  const bool suffixed = 0 < digits && digits <= most_digits &&
                        path.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  if (step < 0 && suffixed && ::access(path.c_str(), F_OK) != 0) {
    step = std::stoll(path.substr(colon + 1));
    path.resize(colon);
  }
  return open_step(find_steps(path, step).front().path);
}

Index default_threads() {
  return std::clamp<Index>(static_cast<Index>(std::thread::hardware_concurrency()), 1, 16);
}

void declare_threads(CommandLine& command, Index& threads) {
  command.whole("--threads", threads, {1, 256}, "number of reader threads");
}

void declare_dtype(CommandLine& command, safetensors::Element& element) {
  using safetensors::Element;
  command.choice("--dtype", element,
                 {{"f32", Element::f32}, {"bf16", Element::bf16}, {"f16", Element::f16}},
                 "type of the numbers in the file; f16 is refused where it is too small");
}

Progress::Progress(std::string what) : what_(std::move(what)), shown_(::isatty(STDERR_FILENO)) {}

Progress::~Progress() {
  if (shown_) std::cerr << "\r\033[K" << std::flush;
}

void Progress::show(Index done, Index total) {
  if (!shown_) return;
  const std::lock_guard lock(mutex_);
  const auto time = std::chrono::steady_clock::now();
  if (time < next_) return;
  next_ = time + std::chrono::milliseconds(100);
  const double seconds = std::chrono::duration<double>(time - begin_).count();
  std::cerr << "\r\033[K" << what_ << ": " << show_bytes(done);
  if (total > 0) std::cerr << " of " << show_bytes(total) << ", " << done * 100 / total << " %";
  if (seconds >= 1)
    std::cerr << ", " << show_bytes(static_cast<Index>(static_cast<double>(done) / seconds))
              << " a second";
  std::cerr << std::flush;
}

}  // namespace trireme
