// Slopes, which the slope function of a pointwise op (nn/pointwise.h) returns, and their number.
#pragma once

#include <type_traits>
#include <utility>

namespace trireme {

/// The derivatives by the first inputs of a pointwise function, in their order.
template <int n>
struct Slopes {
  float of[n];
};
template <class... Slope>
Slopes(Slope...) -> Slopes<static_cast<int>(sizeof...(Slope))>;

namespace pointwise_detail {

/// The number of inputs that `Slope` has derivatives for.
template <class T>
struct SlopeCount : std::integral_constant<int, 1> {
  static_assert(std::is_convertible_v<T, float>,
                "the slope of a pointwise op returns a float, or Slopes{...} of several inputs");
};
template <int n>
struct SlopeCount<Slopes<n>> : std::integral_constant<int, n> {};

/// One for each input. An alias of float would not do: nvcc replaces it before it expands packs.
template <int>
struct Number {
  using type = float;
};
/// How many slopes D returns for an op of as many inputs as `Inputs` has numbers.
template <class F, class D, class Inputs>
struct OpSlopes;
template <class F, class D, int... k>
struct OpSlopes<F, D, std::integer_sequence<int, k...>> {
  static constexpr bool fit = std::is_invocable_v<const F&, typename Number<k>::type...> &&
                              std::is_invocable_v<const D&, typename Number<k>::type...>;
  static_assert(fit, "both functions of a pointwise op take one float for each of its inputs");
  using Result =
      typename std::conditional_t<fit, std::invoke_result<const D&, typename Number<k>::type...>,
                                  std::enable_if<true, float>>::type;
  static constexpr int value = SlopeCount<Result>::value;
  static_assert(value <= static_cast<int>(sizeof...(k)),
                "a pointwise op has at most one slope for each input");
};

}  // namespace pointwise_detail
}  // namespace trireme
