// Rows on a GPU and some of them on the CPU: how they are made, sampled and compared.
#include "tests/gpu/large/large.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "trireme/kernels/elementwise.h"

#include "runtime/core/at.h"

namespace trireme::test {
namespace {

/// The first and the last row, those on both sides of what 32 bits count, as bytes and as
/// elements, and others by chance. In order.
std::vector<Index> sample(Index rows, const std::vector<RowArray>& arrays) {
  constexpr Index wanted = 64;
  std::vector<Index> sampled = {0, rows - 1};
  for (const RowArray& array : arrays)
    for (const Index limit : {Index{1} << 31, Index{1} << 32})
      for (const Index row : {limit / array.row_bytes(), limit / array.width})
        for (const Index near : {row - 1, row, row + 1})
          if (near > 0 && near < rows) sampled.push_back(near);
  const Random random = random_for(1, "rows");
  for (Index i = 0; i < wanted; ++i) sampled.push_back(random.bits(i) % rows);
  std::sort(sampled.begin(), sampled.end());
  sampled.erase(std::unique(sampled.begin(), sampled.end()), sampled.end());
  return sampled;
}

template <class T>
void add_elements(const std::vector<std::byte>& stored, DType dtype, std::vector<Element>& to) {
  std::vector<T> values(stored.size() / sizeof(T));
  std::memcpy(values.data(), stored.data(), stored.size());
  for (const T value : values)
    if constexpr (std::is_same_v<T, Bf16>)
      to.push_back({static_cast<double>(to_float(value)), dtype});
    else
      to.push_back({static_cast<double>(value), dtype});
}

struct Distance {
  double largest = 0;  // of the differences
  Index differ = 0;
};
Distance distance(const std::vector<Element>& a, const std::vector<Element>& b) {
  Distance d;
  for (std::size_t i = 0; i < a.size(); ++i) {
    d.largest = std::max(d.largest, std::fabs(a[i].value - b[i].value));
    d.differ += a[i].value == b[i].value ? 0 : 1;
  }
  return d;
}

std::string compare(const char* what, const std::vector<Element>& got,
                    const std::vector<Element>& expected, const RowProblem& problem) {
  SCOPED_TRACE(what);
  EXPECT_FALSE(got.empty());
  expect_close(got, expected, problem.tolerance, problem.bf16);
  if (got.size() != expected.size()) return {};
  const Distance d = distance(got, expected);
  return str(' ', what, ' ', d.largest, " (", d.differ, " of ", got.size(), ')');
}

}  // namespace

const char* name(Sizes sizes) { return sizes == Sizes::whole ? "whole" : "small"; }

Numbers::Numbers(const char* name, float low, float high, DType dtype)
    : element_bytes_(size_bytes(dtype)), block_(at(period * element_bytes_)) {
  const Floats values = random_floats(period, name, low, high);
  for (Index i = 0; i < period; ++i) {
    std::byte* const to = block_.data() + i * element_bytes_;
    const float value = values[at(i)];
    const Bf16 rounded = to_bf16(value);
    const auto whole = static_cast<std::int32_t>(std::floor(value));
    const void* const from = dtype == DType::f32    ? static_cast<const void*>(&value)
                             : dtype == DType::bf16 ? static_cast<const void*>(&rounded)
                                                    : &whole;
    std::memcpy(to, from, at(element_bytes_));
  }
}

std::vector<std::byte> Numbers::some(Index first, Index count) const {
  std::vector<std::byte> numbers(at(count * element_bytes_));
  for (Index done = 0; done < count;) {
    const Index from = (first + done) % period, length = std::min(period - from, count - done);
    std::memcpy(numbers.data() + done * element_bytes_, block_.data() + from * element_bytes_,
                at(length * element_bytes_));
    done += length;
  }
  return numbers;
}

void Numbers::fill(Stream& stream, void* data, Index count) const {
  auto* const to = static_cast<std::byte*>(data);
  Index done = std::min(period, count);
  stream.copy(to, block_.data(), done * element_bytes_);
  for (Index more = 0; done < count; done += more) {  // what is there, once more
    more = std::min(done, count - done);
    stream.copy(to + done * element_bytes_, to, more * element_bytes_);
  }
  stream.synchronize();
}

RowValues::RowValues(Index count, const std::vector<RowArray>& of)
    : rows(count), arrays(of), sampled(sample(count, of)) {
  for (const RowArray& a : of) numbers.emplace_back(a.name, a.low, a.high, a.dtype);
}

RowBench::RowBench(std::unique_ptr<Device> device, Has has, const RowValues& values)
    : Bench(std::move(device)),
      values_(values),
      rows_(has == Has::all_rows ? values.rows : static_cast<Index>(values.sampled.size())) {
  for (Index i = 0; i < static_cast<Index>(values.sampled.size()); ++i) {
    const Index row = values.sampled[at(i)];
    sampled_.push_back({row, has == Has::all_rows ? row : i, 1});
  }
  pieces_ = has == Has::all_rows ? std::vector<RowPiece>{{0, 0, rows_}} : sampled_;
  for (std::size_t i = 0; i < values.arrays.size(); ++i) {
    memory_.push_back(this->device().allocate(rows_ * values.arrays[i].row_bytes()));
    fill(i, has);
  }
}

void RowBench::fill(std::size_t i, Has has) {
  const RowArray& a = values_.arrays[i];
  const Numbers& numbers = values_.numbers[i];
  if (has == Has::all_rows && a.elsewhere == Elsewhere::numbers)
    return numbers.fill(stream(), array(i), rows_ * a.width);
  for (const RowPiece& row : sampled_) {
    const std::vector<std::byte> stored = numbers.some(row.global * a.width, a.width);
    stream().copy(array<std::byte>(i) + row.local * a.row_bytes(), stored.data(), a.row_bytes());
    stream().synchronize();
  }
}

std::vector<Element> RowBench::sampled(std::size_t i) {
  const RowArray& a = values_.arrays[i];
  std::vector<Element> all;
  std::vector<std::byte> stored(at(a.row_bytes()));
  for (const RowPiece& row : sampled_) {
    stream().copy(stored.data(), array<std::byte>(i) + row.local * a.row_bytes(), a.row_bytes());
    stream().synchronize();
    if (a.dtype == DType::f32) add_elements<float>(stored, a.dtype, all);
    if (a.dtype == DType::bf16) add_elements<Bf16>(stored, a.dtype, all);
    if (a.dtype == DType::i32) add_elements<std::int32_t>(stored, a.dtype, all);
  }
  return all;
}

void report(const std::string& line) {
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  std::printf("# %s: %s\n", test->name(), line.c_str());
  std::fflush(stdout);
}

void require_free(Device& device, Index bytes) {
  const Index free = device.free_bytes();
  require(bytes <= free, "this test needs ", bytes, " bytes of the GPU, and ", free, " are free");
}

bool same_numbers(Stream& stream, const void* a, const void* b, Index count, DType dtype) {
  const Buffer memory = stream.device().allocate(sizeof(double));
  auto* const sum = reinterpret_cast<double*>(memory.data());
  stream.kernels().elementwise.squared_error_forward(stream, {count, a, b, sum, dtype});
  double squares = 1;
  stream.copy(&squares, sum, sizeof squares);
  stream.synchronize();
  return squares == 0;
}

void expect_rows_agree(const RowProblem& problem) {
  const auto start = std::chrono::steady_clock::now();
  const RowValues values(problem.rows, problem.arrays);
  Index row_bytes = 0;
  for (const RowArray& array : problem.arrays) row_bytes += array.row_bytes();
  require_free(*open_gpu(), 2 * problem.rows * row_bytes);
  const auto run = [&](std::unique_ptr<Device> device, RowBench::Has has) {
    auto bench = std::make_unique<RowBench>(std::move(device), has, values);
    problem.run(*bench);
    bench->stream().synchronize();
    return bench;
  };
  const auto cpu = run(open_cpu(), RowBench::Has::sampled_rows);
  const auto gpu = run(open_gpu(), RowBench::Has::all_rows);
  std::string text = str(problem.rows, " rows, 2 x ", problem.rows * row_bytes, " bytes;");
  for (std::size_t i = 0; i < problem.arrays.size(); ++i)
    text += compare(problem.arrays[i].name, gpu->sampled(i), cpu->sampled(i), problem);
  if (!cpu->results().empty()) text += compare("rest", gpu->results(), cpu->results(), problem);

  const auto again = run(open_gpu(), RowBench::Has::all_rows);
  EXPECT_TRUE(again->results() == gpu->results()) << "another run gives other bits";
  for (std::size_t i = 0; i < problem.arrays.size(); ++i) {
    const RowArray& a = problem.arrays[i];
    if (a.dtype == DType::i32) continue;  // only read
    EXPECT_TRUE(same_numbers(gpu->stream(), gpu->array(i), again->array(i), problem.rows * a.width,
                             a.dtype))
        << "another run gives other bits in " << a.name;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  report(str(text, "; ", seconds.count(), " s"));
}

}  // namespace trireme::test
