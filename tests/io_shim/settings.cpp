// The environment is read once: a program that changes its own does not change its faults.
#include "tests/io_shim/settings.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>

namespace io_shim {

std::string real_path(const std::string& path) {
  char resolved[PATH_MAX];
  return ::realpath(path.c_str(), resolved) == nullptr ? path : resolved;
}

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

[[noreturn]] void refuse_setting(const std::string& text) {
  std::fprintf(stderr, "io_shim: %s\n", text.c_str());
  ::_exit(2);
}

void read_fault(std::string fault, Settings& s) {
  if (fault == "direct=EINVAL") {
    s.refuse_direct_open = true;
  } else if (fault == "direct=transfer") {
    s.refuse_direct_transfer = true;
  } else if (fault == "reserve=EOPNOTSUPP") {
    s.refuse_reserve = true;
  } else if (fault == "link=EPERM") {
    s.refuse_link = true;
  } else if (fault.rfind("hold=", 0) == 0) {
    s.hold = fault.substr(5);
  } else {
    if (fault.back() == '+') {
      s.permanent = true;
      fault.pop_back();
    }
    const struct {
      const char* name;
      int error;
      Ending ending;
      bool shorten;
    } known[] = {{"die_before", 0, Ending::before, false}, {"die_after", 0, Ending::after, false},
                 {"die_half", 0, Ending::half, false},     {"kill", 0, Ending::killed, false},
                 {"ENOSPC", ENOSPC, Ending::none, false},  {"EDQUOT", EDQUOT, Ending::none, false},
                 {"EIO", EIO, Ending::none, false},        {"EROFS", EROFS, Ending::none, false},
                 {"EINTR", EINTR, Ending::none, false},    {"EINVAL", EINVAL, Ending::none, false},
                 {"short", 0, Ending::none, true}};
    for (const auto& k : known)
      if (fault == k.name) {
        s.error = k.error;
        s.ending = k.ending;
        s.shorten = k.shorten;
        return;
      }
    refuse_setting("TRIREME_SHIM_FAULT: what is " + fault + "?");
  }
}

Settings read_settings() {
  Settings s;
  s.root = environment("TRIREME_SHIM_ROOT");
  if (s.root.empty()) refuse_setting("TRIREME_SHIM_ROOT is not set");
  while (s.root.size() > 1 && s.root.back() == '/') s.root.pop_back();
  s.real_root = real_path(s.root);
  s.log = environment("TRIREME_SHIM_LOG");
  s.trace = environment("TRIREME_SHIM_TRACE");
  s.record = environment("TRIREME_SHIM_RECORD");
  s.call = std::atol(environment("TRIREME_SHIM_CALL").c_str());
  const std::string rank = environment("OMPI_COMM_WORLD_RANK");
  const std::string faulty = environment("TRIREME_SHIM_RANK");
  s.rank = rank.empty() ? -1 : std::atoi(rank.c_str());
  std::string faults = environment("TRIREME_SHIM_FAULT");
  while (!faults.empty()) {
    const auto comma = faults.find(',');
    if (comma != 0) read_fault(faults.substr(0, comma), s);
    faults = comma == std::string::npos ? "" : faults.substr(comma + 1);
  }
  if (!faulty.empty() && std::atoi(faulty.c_str()) != s.rank) {
    s.call = 0;
    s.hold.clear();
  }
  return s;
}

}  // namespace

// Made at the first call; never destroyed, as calls may come after main.
const Settings& settings() {
  static const Settings* const s = new Settings(read_settings());
  return *s;
}

}  // namespace io_shim
