#include "runtime/core/process/run_program.h"

#include "runtime/core/seconds_since.h"

namespace trireme {
namespace {

/// Cuts what a program prints into lines.
class Lines {
 public:
  explicit Lines(const std::function<void(std::string_view)>& take_line) : take_line_(take_line) {}
  void take(std::string_view piece) {
    constexpr std::size_t longest = std::size_t{64} << 20;
    for (std::size_t end; (end = piece.find('\n')) != std::string_view::npos;
         piece.remove_prefix(end + 1)) {
      line_.append(piece.substr(0, end));
      take_line_(line_);
      line_.clear();
    }
    if (line_.size() < longest) line_.append(piece);
  }

 private:
  const std::function<void(std::string_view)>& take_line_;
  std::string line_;  // without its end
};

}  // namespace

ChildEnd run_program(const std::vector<std::string>& words, const RunOptions& options) {
  Lines lines(options.take_line);
  ChildOptions of_child{.output = ChildOptions::Output::pipe,
                        .take = [&](std::string_view piece) { lines.take(piece); },
                        .most_output = options.most_output,
                        .limit_s = options.limit_s,
                        .ending_s = options.ending_s,
                        .leftover_s = options.leftover_s,
                        .ask_alone = true};
  Child child(words, std::move(of_child));
  const EndSignals* signals = options.signals;
  const double began = steady_seconds();
  for (double next_sign = began + options.between_signs_s;;) {
    if (const ChildEnd* end = child.poll(); end != nullptr) return *end;
    if (signals != nullptr && signals->came()) {
      child.ask_to_end();
      signals = nullptr;
    }
    if (const double now = steady_seconds(); now >= next_sign) {
      next_sign = now + options.between_signs_s;
      options.still_runs(now - began);
    }
    child.pause(signals == nullptr ? -1 : signals->file());
  }
}

}  // namespace trireme
