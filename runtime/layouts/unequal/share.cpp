#include "runtime/layouts/unequal/share.h"

#include <algorithm>
#include <cmath>

#include "trireme/core/error.h"

namespace trireme::layouts {
namespace {

double seconds_for(const Workers& workers, Index items) {
  return workers.first + workers.each * static_cast<double>(items);
}

/// What one of them does in so many seconds, from 1 to `most`.
Index done_by(const Workers& workers, double seconds, Index most) {
  const double quotient = std::floor((seconds - workers.first) / workers.each);
  auto items = static_cast<Index>(std::clamp(quotient, 1.0, static_cast<double>(most)));
  // The quotient may be rounded across a whole number.
  while (items < most && seconds_for(workers, items + 1) <= seconds) ++items;
  while (items > 1 && seconds_for(workers, items) > seconds) --items;
  return items;
}

class Division {
 public:
  Division(const std::vector<Workers>& kinds, Index items) : kinds_(kinds), items_(items) {}

  std::optional<std::vector<Share>> make() {
    double late = 0;
    Index least = 0, most = 0;
    for (const Workers& kind : kinds_) {
      require(kind.each > 0, "a worker takes ", kind.each, " s for an item; expected more than 0");
      if (kind.most < 1) return std::nullopt;
      late = std::max(late, seconds_for(kind, most_of(kind)));
      least += kind.count;
      most += kind.count * most_of(kind);
    }
    if (items_ < least || items_ > most) return std::nullopt;
    return shares_at(bisect(0, late));
  }

 private:
  Index most_of(const Workers& kind) const { return std::min(kind.most, items_); }

  Index done_by_all(double seconds) const {
    Index sum = 0;
    for (const Workers& kind : kinds_) sum += kind.count * done_by(kind, seconds, most_of(kind));
    return sum;
  }

  struct Interval {
    double early, late;  // too early, and not
  };
  /// The two numbers next to each other between which it becomes enough.
  Interval bisect(double early, double late) const {
    for (;;) {
      const double middle = early + (late - early) / 2;
      if (middle <= early || middle >= late) return {early, late};
      (done_by_all(middle) >= items_ ? late : early) = middle;
    }
  }

  /// What is too much is taken from workers that would be the last ones.
  std::vector<Share> shares_at(const Interval& time) const {
    std::vector<Share> shares;
    Index surplus = done_by_all(time.late) - items_;
    for (const Workers& kind : kinds_) {
      const Index items = done_by(kind, time.late, most_of(kind));
      Share one{items, 0};
      if (surplus > 0 && done_by(kind, time.early, most_of(kind)) < items) {
        const Index fewer = std::min<Index>(surplus, kind.count);
        surplus -= fewer;
        one = {items - 1, static_cast<int>(kind.count - fewer)};
      }
      shares.push_back(one);
    }
    return shares;
  }

  const std::vector<Workers>& kinds_;
  const Index items_;
};

}  // namespace

double seconds_of(const Workers& workers, const Share& share) {
  return seconds_for(workers, share.most());
}

std::optional<std::vector<Share>> share(const std::vector<Workers>& kinds, Index items) {
  return Division(kinds, items).make();
}

double seconds_of_equal_slices(const std::vector<Updaters>& kinds) {
  int count = 0;
  double slowest = 0;
  for (const Updaters& kind : kinds) {
    count += kind.count;
    slowest = std::max(slowest, kind.seconds);
  }
  return slowest / count;
}

std::optional<std::vector<double>> share_slices(const std::vector<Updaters>& kinds) {
  std::vector<double> parts(kinds.size(), -1);  // -1: not known to be limited by memory
  for (;;) {
    double left = 1, rate = 0;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      if (parts[k] < 0)
        rate += kinds[k].count / kinds[k].seconds;
      else
        left -= kinds[k].count * parts[k];
    }
    if (rate == 0) return std::nullopt;
    const double seconds = left / rate;  // of those with enough memory for that
    bool limited = false;
    for (std::size_t k = 0; k < kinds.size(); ++k)
      if (parts[k] < 0 && seconds / kinds[k].seconds > kinds[k].most) {
        parts[k] = std::max(0.0, kinds[k].most);
        limited = true;
      }
    if (limited) continue;
    for (std::size_t k = 0; k < kinds.size(); ++k)
      if (parts[k] < 0) parts[k] = seconds / kinds[k].seconds;
    return parts;
  }
}

std::vector<Index> whole_shares(const std::vector<double>& parts) {
  constexpr double tolerance = 0.03;
  constexpr int finest = 1000;
  const double largest = *std::max_element(parts.begin(), parts.end());
  std::vector<Index> shares;
  for (int scale = 1; scale <= finest; ++scale) {
    shares.clear();
    double worst = 0;
    for (const double part : parts) {
      const double exact = scale * part / largest, rounded = std::round(exact);
      worst = std::max(worst, exact > 0 ? std::abs(rounded / exact - 1) : 0);
      shares.push_back(static_cast<Index>(rounded));
    }
    if (worst <= tolerance) break;
  }
  return shares;
}

}  // namespace trireme::layouts
