// What the environment asks of io_shim; see io_shim.cpp.
#pragma once

#include <string>

#include <unistd.h>

namespace io_shim {

enum class Ending { none, before, after, half, killed };

struct Settings {
  std::string root, real_root, log, trace, record, hold;
  long call = 0;  // 0: none
  int rank = -1;
  Ending ending = Ending::none;
  int error = 0;
  bool permanent = false, shorten = false;
  bool refuse_direct_open = false, refuse_direct_transfer = false, refuse_reserve = false,
       refuse_link = false;
};

std::string real_path(const std::string& path);

/// Read once, at the first call. Ends the process when it makes no sense.
const Settings& settings();

}  // namespace io_shim
