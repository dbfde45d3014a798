// DiskPace: how long a copy to a disk rests after each piece, so that it leaves most of a core and
// half of the disk to training and to saves.
#pragma once

#include <algorithm>

namespace trireme::checkpoint {

struct DiskPace {
  static constexpr double most_of_disk = 0.5, most_of_core = 0.1;

  /// In seconds. A piece took `took_s`, in which its thread used a core for `cpu_s`.
  static double rest_s(double took_s, double cpu_s) {
    return std::max(took_s / most_of_disk, cpu_s / most_of_core) - took_s;
  }
};

}  // namespace trireme::checkpoint
