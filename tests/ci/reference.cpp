// The unit of tests/budget: compiled and run in each run of tests/run that has a budget, so that
// the CPU seconds of a tier can be compared between machines. Never changed: the table
// tests/ci/budget.json counts in it. It needs nothing but the standard library.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

constexpr int kinds = 4;     // what the compiler instantiates
constexpr int rounds = 250;  // what the program computes

template <int N>
struct Key {
  std::uint64_t value = 0;
  bool operator<(const Key& other) const { return value * (2 * N + 1) < other.value * (2 * N + 1); }
};

template <int N>
std::uint64_t ordered(std::mt19937_64& random) {
  std::map<Key<N>, std::vector<std::string>> map;
  for (int i = 0; i < 40; ++i) {
    const Key<N> key{random() % 1000};
    map[key].push_back(std::to_string(key.value));
  }
  std::vector<Key<N>> keys;
  for (const auto& [key, words] : map) keys.insert(keys.end(), words.size(), key);
  std::stable_sort(keys.begin(), keys.end(),
                   [](const Key<N>& a, const Key<N>& b) { return b < a; });
  const std::function<std::uint64_t(std::uint64_t)> mixed = [&keys](std::uint64_t sum) {
    for (const Key<N>& key : keys) sum = sum * 31 + key.value;
    return sum;
  };
  return mixed(N);
}

template <int... N>
std::uint64_t all_ordered(std::mt19937_64& random, std::integer_sequence<int, N...>) {
  return (ordered<N>(random) + ...);
}

double product(std::mt19937_64& random) {
  constexpr std::size_t size = 96;
  std::vector<double> a(size * size), b(size * size), c(size * size);
  std::uniform_real_distribution<double> between(-1, 1);
  for (double& x : a) x = between(random);
  for (double& x : b) x = between(random);
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t k = 0; k < size; ++k)
      for (std::size_t j = 0; j < size; ++j) c[i * size + j] += a[i * size + k] * b[k * size + j];
  return std::accumulate(c.begin(), c.end(), 0.0);
}

std::size_t words(std::mt19937_64& random) {
  static const std::regex number("[0-9]+(\\.[0-9]+)?");
  std::ostringstream text;
  for (int i = 0; i < 150; ++i) text << "step " << random() % 1000 << " loss " << i * 0.25 << '\n';
  const std::string all = text.str();
  std::unordered_map<std::string, std::size_t> counts;
  for (std::sregex_iterator at(all.begin(), all.end(), number), end; at != end; ++at)
    ++counts[at->str()];
  return counts.size();
}

}  // namespace

int main() {
  std::mt19937_64 random(1);
  std::uint64_t sum = 0;
  double products = 0;
  std::size_t found = 0;
  for (int round = 0; round < rounds; ++round) {
    sum += all_ordered(random, std::make_integer_sequence<int, kinds>());
    for (int i = 0; i < 20; ++i) products += product(random);
    for (int i = 0; i < 10; ++i) found += words(random);
  }
  std::printf("%llu %.6f %zu\n", static_cast<unsigned long long>(sum), products, found);
}
