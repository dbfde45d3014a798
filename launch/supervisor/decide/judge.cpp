#include "launch/supervisor/decide/judge.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "trireme/core/error.h"

namespace trireme::supervisor {
namespace {

constexpr Index equal_failures = 3, failures = 6;  // without a newer durable step between
constexpr int lost_daemon = 205;                   // exit code of mpirun (Open MPI 4.1)
// Ranks on other hosts may still hold the memory or the lock that was missing.
constexpr double after_refusal_s = 5;

/// "rank 12 failed at 0x7f" and "rank 3 failed at 0x11" are one failure.
std::string without_numbers(const std::string& text) {
  std::string cut;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    const bool hex = text.compare(i, 2, "0x") == 0;
    if (!hex && !digit(text[i])) {
      cut += text[i];
      continue;
    }
    i += hex ? 2 : 0;
    while (i < text.size() && (digit(text[i]) || (hex && std::isxdigit(text[i]) != 0))) ++i;
    --i;
    cut += '#';
  }
  return cut;
}

Cause cause_of(const Facts& facts) {
  const bool gpu_failed = has_sign(facts.gpu_signs, observe::HealthAction::fatal);
  if (facts.hang) return gpu_failed ? Cause::gpu_failed : Cause::hang;
  if (facts.finished || (facts.code == code::done && !facts.watched)) return Cause::finished;
  if (facts.code == code::configuration || !facts.refusal.empty()) return Cause::configuration;
  if (facts.grows && facts.stop == 0) return Cause::growth;
  if (facts.replaces && facts.stop == 0) return Cause::replacement;
  if (facts.code == code::stopped || facts.stop != 0) return Cause::stopped;
  if (facts.code == code::done) return Cause::ended_early;
  if (facts.code == code::numerics) return Cause::numerics;
  if (facts.code == code::corruption) return Cause::corruption;
  const bool killed = facts.launcher_killed || facts.code == 128 + SIGKILL;
  if (killed && !facts.out_of_memory.empty()) return Cause::out_of_memory;
  if (gpu_failed) return Cause::gpu_failed;
  if (facts.launcher_killed) return Cause::launcher_killed;
  if (!facts.lost_host.empty() || facts.daemon_lost || facts.code == lost_daemon)
    return Cause::node_lost;
  if (facts.code == 128 + SIGKILL) return Cause::killed;
  if (facts.code > 128) return Cause::crashed;
  return Cause::failed;
}

/// An ended attempt that failed, and after which the job was started again.
bool counts(const Attempt& attempt) {
  return attempt.ended && attempt.ended->cause != Cause::supervisor_lost &&
         !is_planned(attempt.ended->cause);
}
/// The failures at the end of the ledger without progress: an attempt has made some if it made a
/// newer durable step, or a later one began with a later step, from a snapshot in memory.
struct Tail {
  Index all = 0, equal = 0;  // equal: those with the signature of the last, in a row
};

/// As progressed(); but steps that are done again after corruption are none, where corruption is
/// found again.
bool passed_corruption(const History& history, std::size_t i) {
  const auto is_corrupt = [](const Attempt& attempt) {
    return attempt.ended && attempt.ended->cause == Cause::corruption;
  };
  const Attempt& attempt = history.attempts[i];
  if (!progressed(attempt)) return false;
  for (std::size_t j = history.first; is_corrupt(attempt) && j < i; ++j)
    if (is_corrupt(history.attempts[j]) &&
        history.attempts[j].ended->durable >= attempt.ended->durable)
      return false;
  return true;
}

Tail tail_of(const History& history) {
  Tail tail;
  bool same = true;
  Index later = 0;
  for (std::size_t i = history.attempts.size(); i-- > history.first;) {
    const Attempt& attempt = history.attempts[i];
    if (!attempt.ended) continue;
    const Index first = attempt.ended->first_step;
    if (passed_corruption(history, i) || (first > 0 && later > first)) break;
    if (first > 0) later = first;
    if (!counts(attempt)) continue;
    same = same && attempt.ended->signature == history.attempts.back().ended->signature;
    ++tail.all;
    if (same) ++tail.equal;
  }
  return tail;
}

/// The last step of an earlier attempt that ended with Cause::numerics, and that this one did not
/// pass; -1: none.
Index same_numerics(const Facts& facts, const History& history) {
  for (std::size_t i = history.first; i + 1 < history.attempts.size(); ++i) {
    const Attempt& attempt = history.attempts[i];
    if (attempt.ended && attempt.ended->cause == Cause::numerics &&
        facts.durable <= attempt.ended->last_step)
      return attempt.ended->last_step;
  }
  return -1;
}

/// Whether an earlier attempt since the last supervision ended has done a step as the last one was
/// to: then the last one was not refused for what it was asked to do.
bool has_run_before(const History& history) {
  const AttemptBegan& last = history.attempts.back().began;
  for (std::size_t i = history.first; i + 1 < history.attempts.size(); ++i) {
    const Attempt& attempt = history.attempts[i];
    const bool did_a_step = progressed(attempt) || (attempt.ended && attempt.ended->first_step > 0);
    if (did_a_step && attempt.began.ranks == last.ranks && attempt.began.layout == last.layout)
      return true;
  }
  return false;
}

double backoff_s(Index failures_without_progress) {
  constexpr double most = 60;
  double delay = 0;
  for (Index i = 1; i < failures_without_progress; ++i) delay = delay == 0 ? 1 : 2 * delay;
  return std::min(delay, most);
}

Decision end(int exit_code, std::string why) {
  return {.restart = false, .exit_code = exit_code, .why = std::move(why)};
}

std::string with_reason(const std::string& why, const AttemptEnded& last) {
  return last.error.empty() ? why : why + ": " + last.error;
}

Decision after_stop(const Facts& facts) {
  if (facts.code == code::stopped) return end(code::stopped, "stopped and saved");
  const bool nothing_lost = facts.last_step <= std::max(facts.durable, facts.resumed);
  if (facts.watched && (nothing_lost || facts.durable > facts.resumed))
    return end(code::stopped,
               str("stopped; the newest durable step is ", facts.durable,
                   nothing_lost ? "" : str(", ", facts.last_step - facts.durable, " are lost")));
  return end(128 + facts.stop, facts.watched ? "stopped, and its steps were not saved" : "stopped");
}

}  // namespace

bool progressed(const Attempt& attempt) {
  return attempt.ended && attempt.ended->durable > attempt.began.resumed;
}

std::string name_of_signal(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? str("signal ", signal) : str("SIG", name);
}

std::string reason_of(Cause cause, const Facts& facts) {
  const auto with_first_error = [&](const std::string& reason) {
    return facts.first_error.empty() ? reason : reason + ": " + facts.first_error;
  };
  if (cause == Cause::out_of_memory) return facts.out_of_memory;
  if (!facts.refusal.empty()) return facts.refusal;
  if (cause == Cause::launcher_killed) {
    const int signal = facts.code - 128;
    return str("mpirun itself got ", name_of_signal(signal),
               signal == SIGKILL ? ": lack of memory, an operator, or the batch system" : "");
  }
  if ((cause == Cause::killed || cause == Cause::crashed) && !facts.rank_end.empty())
    return with_first_error(facts.rank_end);
  if (cause == Cause::node_lost && !facts.lost_host.empty())
    return "mpirun lost contact with " + facts.lost_host;
  if (cause == Cause::node_lost && facts.daemon_lost && facts.last_step == facts.resumed)
    return "mpirun could not start its daemon on a host" +
           (facts.last_line.empty() ? "" : ": " + facts.last_line);
  if (!facts.first_error.empty() || !is_failure(cause)) return facts.first_error;
  if (cause == Cause::ended_early) return "the program ended with 0 before its last step";
  if (!facts.box.empty()) return facts.box;
  return facts.last_line.empty() ? "it printed nothing"
                                 : "it printed no error, and at last: " + facts.last_line;
}

Verdict judge(const Facts& facts) {
  Verdict verdict;
  verdict.cause = cause_of(facts);
  verdict.blame = blame_for(facts.gpu_signs);
  verdict.signature = str(
      name(verdict.cause), ' ', facts.code, ' ', facts.last_step > facts.resumed ? "step" : "start",
      ' ', without_numbers(facts.hang_kind.empty() ? facts.first_error : facts.hang_kind));
  if (verdict.cause == Cause::node_lost && !facts.lost_host.empty())
    verdict.blame.push_back({facts.lost_host, 2, "the launcher lost contact with it"});
  for (const std::string& host : facts.unreachable)
    verdict.blame.push_back({host, 2, "it does not answer"});
  constexpr Index points = 3;  // out at once: it may compute wrongly what nothing compares
  for (const std::string& host : facts.wrong_hosts)
    verdict.blame.push_back({host, points, "it held wrong bits (silent corruption)"});
  const bool died = verdict.cause == Cause::killed || verdict.cause == Cause::crashed;
  const bool of_the_program = has_sign(facts.gpu_signs, observe::HealthAction::program);
  if (died && !facts.rank_host.empty() && !of_the_program)
    verdict.blame.push_back({facts.rank_host, 1, str("a rank ended by signal ", facts.code - 128)});
  if (verdict.cause == Cause::replacement && !facts.slow_host.empty())
    verdict.blame.push_back({facts.slow_host, 1, facts.why_slow});
  for (const std::string& host : facts.hang_hosts)
    verdict.blame.push_back({host, 2, facts.first_error});
  return verdict;
}

Decision decide(const Facts& facts, const History& history, Index max_restarts) {
  const AttemptEnded& last = *history.attempts.back().ended;
  if (last.cause == Cause::finished) return end(code::done, "finished");
  if (last.cause == Cause::stopped) return after_stop(facts);
  if (is_planned(last.cause)) return {.restart = true};
  const bool refused = last.cause == Cause::configuration;
  if (refused && !has_run_before(history))
    return end(code::configuration, "the configuration cannot run");  // the attempt says why
  const bool numerics = last.cause == Cause::numerics;
  if (numerics)
    if (const Index step = same_numerics(facts, history); step >= 0)
      return end(code::no_help, str("gradients are not finite again, at step ", step,
                                    " as before: this is deterministic, so it is the model or the "
                                    "data, not the hardware"));
  const Tail tail = tail_of(history);
  const int no_help = refused ? code::configuration : code::no_help;
  if (tail.equal >= equal_failures)
    return end(no_help, with_reason(str(equal_failures, " equal failures (", name(last.cause),
                                        ") without a new durable step between"),
                                    last));
  if (tail.all >= failures)
    return end(no_help, with_reason(str(failures,
                                        " failures without a new durable step between, "
                                        "the last one ",
                                        name(last.cause)),
                                    last));
  Index made = 0;
  for (std::size_t i = history.first; i < history.attempts.size(); ++i)
    if (!history.attempts[i].ended || !is_planned(history.attempts[i].ended->cause)) ++made;
  if (made > max_restarts)
    return end(code::no_help,
               with_reason(str("--max-restarts ", max_restarts, " are used up"), last));
  return {.restart = true,
          .delay_s = std::max(backoff_s(tail.all), refused ? after_refusal_s : 0),
          .why = numerics  ? "gradients were not finite: once more, from an earlier step"
                 : refused ? "the configuration could run before: once more"
                 : last.cause != Cause::corruption ? ""
                 : last.clean
                     ? "silent corruption: once more"  // from where: step_to_go_back_to()
                     : "silent corruption: once more, from the newest step that is saved, whose "
                       "replicas agreed"};
}

}  // namespace trireme::supervisor
