// Tests with arrays of more than 2^31 elements, which only hardware can run whole; `small` is for
// the emulation. An array is a row of so many elements for each of many rows. The GPU gets all
// rows, the CPU some of them, and those must agree; and a second run on the GPU must give the same
// bits in all.
#pragma once

#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {

enum class Sizes { whole, small };
const char* name(Sizes sizes);
inline void PrintTo(Sizes sizes, std::ostream* to) { *to << name(sizes); }

/// All tests with sizes; which of them run is the program's --sizes.
class OnLargeArrays : public testing::TestWithParam<Sizes> {
 protected:
  /// `whole`, or `small`.
  template <class T>
  T sized(T whole, T small) const {
    return GetParam() == Sizes::whole ? whole : small;
  }
};

/// Numbers of a name, which an array repeats. An index that is wrong by a power of two, or by
/// whole rows, meets another number, because a prime number of them is repeated.
class Numbers {
 public:
  /// f32, bf16 or i32: whole numbers, rounded down.
  Numbers(const char* name, float low, float high, DType dtype);

  /// Numbers [first, first + count) on the host, as they are stored.
  std::vector<std::byte> some(Index first, Index count) const;
  /// The first `count` numbers, in memory of the stream's device. Waits for the stream.
  void fill(Stream& stream, void* data, Index count) const;

 private:
  static constexpr Index period = 99'991;
  Index element_bytes_;
  std::vector<std::byte> block_;
};

/// What an array holds in rows that are not sampled. With zeros, the CPU's sum over the sampled
/// rows is that over all.
enum class Elsewhere { numbers, zeros };

/// An array with `width` elements for each row.
struct RowArray {
  const char* name;
  Index width;
  DType dtype = DType::bf16;
  float low = -1, high = 1;
  Elsewhere elsewhere = Elsewhere::numbers;

  Index row_bytes() const { return width * size_bytes(dtype); }
};

/// What the arrays of a test hold at first, and which of their rows are compared.
struct RowValues {
  RowValues(Index count, const std::vector<RowArray>& of);

  Index rows;
  std::vector<RowArray> arrays;
  std::vector<Numbers> numbers;  // of each array
  std::vector<Index> sampled;
};

/// Rows [local, local + count) of a bench, which are rows from `global` on of the problem.
struct RowPiece {
  Index global, local, count;
};

/// One device with arrays of rows; what has no rows is put as in other tests.
class RowBench : public Bench {
 public:
  enum class Has { all_rows, sampled_rows };
  /// Sampled rows hold the numbers of their place among all.
  RowBench(std::unique_ptr<Device> device, Has has, const RowValues& values);

  Device& device() { return stream().device(); }
  Index rows() const { return rows_; }
  /// The i-th of the arrays.
  template <class T = void>
  T* array(std::size_t i) const {
    return reinterpret_cast<T*>(memory_.at(i).data());
  }
  /// For calls that must know which rows they work on.
  const std::vector<RowPiece>& pieces() const { return pieces_; }
  /// What the sampled rows of array i hold.
  std::vector<Element> sampled(std::size_t i);
  /// Memory that is not compared.
  void* scratch(Index bytes) { return scratch_.emplace_back(device().allocate(bytes)).data(); }

 private:
  void fill(std::size_t i, Has has);

  const RowValues& values_;
  Index rows_;
  std::vector<RowPiece> pieces_, sampled_;
  std::vector<Buffer> memory_, scratch_;
};

struct RowProblem {
  Index rows;
  std::vector<RowArray> arrays;
  /// Puts what has no rows, and calls kernels. On any device.
  std::function<void(RowBench&)> run;
  double tolerance = 0;  // of each array's largest element, or of 1
  Bf16Tolerance bf16 = {};
};

/// The sampled rows and what has no rows are on the GPU as on the CPU; a second run on the GPU
/// gives the same bits in all rows. Prints how far apart they are. Without the memory that it
/// needs, it fails.
void expect_rows_agree(const RowProblem& problem);

/// Fails, with the bytes that are missing, when the GPU has no `bytes` free.
void require_free(Device& device, Index bytes);
/// Two arrays on the stream's device hold the same numbers. f32 or bf16; NaN is no number.
bool same_numbers(Stream& stream, const void* a, const void* b, Index count, DType dtype);
/// A line of the test's report.
void report(const std::string& line);

}  // namespace trireme::test
