// checkpoint_tool: one process saves or prunes a directory of small checkpoints, to be run under
// tests/io_shim.
//   checkpoint_tool save ROOT STEP VALUE    commits a step; a save that fails is discarded
//   checkpoint_tool saves ROOT STEP VALUE   the same, and then step STEP + 1, failed or not
//   checkpoint_tool prune ROOT KEEP
//   checkpoint_tool snapshot ROOT STEP      a complete snapshot of STEP in the first slot of a rank
//   checkpoint_tool job ROOT STEP           takes the lease, cleans up, saves STEP with value 4,
//                                           and gives the lease back
// A word more, no-exchange, makes it see a file system that cannot exchange two names.
// Exit code 0; 3 when the last save, or pruning, failed.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include <dlfcn.h>

#include "trireme/core/error.h"

#include "runtime/store/lease/lease.h"
#include "tests/crash/crash_steps.h"

namespace {
bool can_exchange = true;
}

// Before the one of libc, and of io_shim.
extern "C" int renameat2(int at, const char* from, int to_at, const char* to,
                         unsigned flags) noexcept {
  using Call = int (*)(int, const char*, int, const char*, unsigned);
  static const auto next = reinterpret_cast<Call>(::dlsym(RTLD_NEXT, "renameat2"));
  if (can_exchange) return next(at, from, to_at, to, flags);
  errno = EINVAL;
  return -1;
}

namespace trireme::test {
namespace {

int save(const std::string& root, Index step, float value) {
  try {
    commit_toy(root, step, state_of(value));
    return 0;
  } catch (const Error& error) {
    std::printf("step %lld: %s\n", static_cast<long long>(step), error.what());
  }
  try {
    discard_step(root, step, toy_run);
  } catch (const Error& error) {
    std::printf("discarding step %lld: %s\n", static_cast<long long>(step), error.what());
  }
  return 3;
}

int tool(int count, char** arguments) {
  const std::string command = count > 3 ? arguments[1] : "", root = count > 3 ? arguments[2] : "";
  const Index number = count > 3 ? std::atoll(arguments[3]) : 0;
  const std::string last = arguments[count - 1];
  can_exchange = last != "no-exchange";
  if (command == "prune") {
    prune_steps(root, {.keep_last = number});
    return 0;
  }
  if (command == "snapshot") {
    make_snapshot(root, number, 0);
    return 0;
  }
  if (command == "job") {
    const Lease lease(root, toy_run);
    require(lease.held(), "the lease is taken and not held");
    clean_leftovers(root);
    return save(root, number, 4);
  }
  require(command.starts_with("save") && count > 4, "see the head of checkpoint_tool.cpp");
  const auto value = static_cast<float>(std::atof(arguments[4]));
  const int status = save(root, number, value);
  return command == "save" ? status : save(root, number + 1, value);
}

}  // namespace
}  // namespace trireme::test

int main(int count, char** arguments) {
  try {
    return trireme::test::tool(count, arguments);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 3;
  }
}
