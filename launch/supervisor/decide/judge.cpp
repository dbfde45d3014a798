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
  const bool gpu_failed = has_sign(facts.evidence.gpu_signs, observe::HealthAction::fatal);
  if (facts.hang) return gpu_failed ? Cause::gpu_failed : Cause::hang;
  if (facts.finished || (facts.code == code::done && !facts.watched)) return Cause::finished;
  if (facts.code == code::configuration || !facts.evidence.refusal.empty())
    return Cause::configuration;
  if (facts.grows && facts.stop == 0) return Cause::growth;
  if (facts.leaves && facts.stop == 0) return Cause::replacement;
  if (facts.code == code::stopped || facts.stop != 0) return Cause::stopped;
  if (facts.code == code::done) return Cause::ended_early;
  if (facts.code == code::numerics) return Cause::numerics;
  if (facts.code == code::corruption) return Cause::corruption;
  const bool killed = facts.launcher_killed || facts.code == 128 + SIGKILL;
  if (killed && !facts.evidence.out_of_memory.empty()) return Cause::out_of_memory;
  if (gpu_failed) return Cause::gpu_failed;
  if (facts.launcher_killed) return Cause::launcher_killed;
  if (!facts.evidence.lost_host.empty() || facts.evidence.daemon_lost || facts.code == lost_daemon)
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

/// Returns what the status pages show of a hang, or else the first line of the output that names an
/// error.
const std::string& error_of(const Facts& facts) {
  return facts.hang && facts.stuck ? facts.stuck->sentence : facts.evidence.first_error;
}

/// Returns which rank a signal has ended, where, and in what.
std::string end_of_rank(const Evidence& evidence) {
  const std::string host = evidence.rank_host.empty() ? "" : " on " + evidence.rank_host;
  const std::string rank = evidence.dead_rank_was.empty() ? str("rank ", evidence.dead_rank, host)
                                                          : evidence.dead_rank_was;
  const bool no_record = evidence.dead_signal == SIGKILL && evidence.counts_kills_for_memory;
  return str("signal ", evidence.dead_signal, " (", name_of_signal(evidence.dead_signal),
             ") ended ", rank, no_record ? "; the kernel has noted no lack of memory" : "");
}

/// Returns what is known of why an attempt with this cause has ended, in a sentence; empty where
/// the cause says all.
std::string reason_of(Cause cause, const Facts& facts) {
  const Evidence& seen = facts.evidence;
  const std::string& error = error_of(facts);
  const auto with_first_error = [&](const std::string& reason) {
    return error.empty() ? reason : reason + ": " + error;
  };
  if (cause == Cause::out_of_memory) return seen.out_of_memory;
  if (!seen.refusal.empty()) return seen.refusal;
  if (cause == Cause::launcher_killed) {
    const int signal = facts.code - 128;
    return str("mpirun itself got ", name_of_signal(signal),
               signal == SIGKILL ? ": lack of memory, an operator, or the batch system" : "");
  }
  if ((cause == Cause::killed || cause == Cause::crashed) && seen.dead_rank >= 0)
    return with_first_error(end_of_rank(seen));
  if (cause == Cause::node_lost && !seen.lost_host.empty())
    return "mpirun lost contact with " + seen.lost_host;
  if (cause == Cause::node_lost && seen.daemon_lost && facts.last_step == facts.resumed)
    return "mpirun could not start its daemon on a host" +
           (seen.last_line.empty() ? "" : ": " + seen.last_line);
  if (!error.empty() || !is_failure(cause)) return error;
  if (cause == Cause::ended_early) return "the program ended with 0 before its last step";
  if (!seen.box.empty()) return seen.box;
  return seen.last_line.empty() ? "it printed nothing"
                                : "it printed no error, and at last: " + seen.last_line;
}

}  // namespace

bool progressed(const Attempt& attempt) {
  return attempt.ended && attempt.ended->durable > attempt.began.resumed;
}

std::string name_of_signal(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? str("signal ", signal) : str("SIG", name);
}

Verdict judge(const Facts& facts) {
  const bool is_seen_hang = facts.hang && facts.stuck;
  Verdict verdict;
  verdict.cause = cause_of(facts);
  verdict.error = reason_of(verdict.cause, facts);
  verdict.blame = blame_for(facts.evidence.gpu_signs);
  verdict.signature =
      str(name(verdict.cause), ' ', facts.code, ' ',
          facts.last_step > facts.resumed ? "step" : "start", ' ',
          without_numbers(is_seen_hang && !facts.stuck->kind.empty() ? facts.stuck->kind
                                                                     : error_of(facts)));
  if (verdict.cause == Cause::node_lost && !facts.evidence.lost_host.empty())
    verdict.blame.push_back({facts.evidence.lost_host, 2, "the launcher lost contact with it"});
  for (const std::string& host : facts.unreachable)
    verdict.blame.push_back({host, 2, "it does not answer"});
  constexpr Index points = 3;  // out at once: it may compute wrongly what nothing compares
  for (const std::string& host : facts.wrong_hosts)
    verdict.blame.push_back({host, points, "it held wrong bits (silent corruption)"});
  const bool died = verdict.cause == Cause::killed || verdict.cause == Cause::crashed;
  const bool of_the_program = has_sign(facts.evidence.gpu_signs, observe::HealthAction::program);
  if (died && !facts.evidence.rank_host.empty() && !of_the_program)
    verdict.blame.push_back(
        {facts.evidence.rank_host, 1, str("a rank ended by signal ", facts.code - 128)});
  if (verdict.cause == Cause::replacement && facts.leaves->slow)
    verdict.blame.push_back({facts.leaves->host, 1, facts.leaves->why});
  if (is_seen_hang)
    for (const std::string& host : facts.stuck->hosts)
      verdict.blame.push_back({host, 2, facts.stuck->sentence});
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
