#include "runtime/checkpoint/read.h"

#include <algorithm>
#include <cstring>

#include "trireme/core/bf16.h"
#include "trireme/core/error.h"

#include "runtime/checkpoint/tensors.h"
#include "runtime/store/read/widen.h"

namespace trireme::checkpoint {
namespace {

Index bytes_of(const Wanted& w) { return w.box.count() * size_bytes(w.dtype); }

bool is_rounded(const Wanted& w, DType kept) { return w.dtype == DType::f32 && kept != w.dtype; }

/// Of a box where it is kept.
Index kept_bytes(const Wanted& w, DType kept) {
  return w.box.count() * size_bytes(is_rounded(w, kept) ? kept : w.dtype);
}

constexpr Index f32_bytes = sizeof(float), bf16_bytes = sizeof(Bf16);

/// f32 becomes bf16 in the first half of the same memory.
void round_in_place(void* data, Index count) {
  auto* bytes = static_cast<std::byte*>(data);
  for (Index i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, bytes + i * f32_bytes, sizeof value);
    const Bf16 rounded = to_bf16(value);
    std::memcpy(bytes + i * bf16_bytes, &rounded, sizeof rounded);
  }
}

/// Adds `w` in boxes of at most `most` bytes, each of which lies in one run in the memory of the
/// whole. That is a cut of the first dim that can be cut, and where one row of it is too large of
/// the next one.
void add_parts(const Wanted& w, Index most, DType kept, std::vector<Wanted>& parts) {
  const Index bytes = bytes_of(w);
  if (bytes <= most || w.box.count() == 1) return parts.push_back(w);
  int d = 0;
  while (w.box.size[d] == 1) ++d;
  const Index rows = w.box.size[d], row_bytes = bytes / rows;
  const Index step = std::max<Index>(most / row_bytes, 1);
  for (Index begin = 0; begin < rows; begin += step) {
    Wanted part = w;
    part.box.begin[d] += begin;
    part.box.size[d] = std::min(step, rows - begin);
    part.data = static_cast<std::byte*>(w.data) + begin * (kept_bytes(w, kept) / rows);
    add_parts(part, most, kept, parts);
  }
}

}  // namespace

int reading_threads(const Options& options) {
  return std::max(2, static_cast<int>(options.threads_per_rank));
}

Index reading_bytes(bool direct, Index wanted_bytes, int threads) {
  return reader_bytes(threads) + (direct ? 0 : std::min(wanted_bytes, passing_bytes));
}

ReadReport read_in_batches(Stream& stream, TensorSource& source, const std::vector<Wanted>& wanted,
                           int threads, Index most, const std::function<void()>& has_read,
                           DType kept) {
  std::vector<Wanted> parts;
  Index all = 0;
  for (const Wanted& w : wanted) {
    add_parts(w, most, kept, parts);
    all += bytes_of(w);
  }
  const Buffer host = allocate_host(std::min(all, most));
  ReadReport report;
  for (std::size_t next = 0; next < parts.size();) {
    std::vector<Wanted> batch;
    std::vector<void*> places;
    Index used = 0;
    for (; next < parts.size() && used + bytes_of(parts[next]) <= host.bytes(); ++next) {
      batch.push_back(parts[next]);
      places.push_back(std::exchange(batch.back().data, host.data() + used));
      used += bytes_of(parts[next]);
    }
    require(!batch.empty(), "a batch of ", most, " bytes holds no element");
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (!source.fills(batch[i]))
        stream.copy(batch[i].data, places[i], kept_bytes(batch[i], kept));
    stream.synchronize();
    for (const Wanted& w : batch)
      if (is_rounded(w, kept) && !source.fills(w)) store::widen_in_place(w.data, w.box.count());
    const ReadReport read = source.read(batch, threads, has_read);
    report.bytes_used += read.bytes_used;
    report.bytes_read += read.bytes_read;
    report.ms += read.ms;
    for (const Wanted& w : batch)
      if (is_rounded(w, kept)) round_in_place(w.data, w.box.count());
    for (std::size_t i = 0; i < batch.size(); ++i)
      stream.copy(places[i], batch[i].data, kept_bytes(batch[i], kept));
    stream.synchronize();  // the next batch takes the same memory
  }
  return report;
}

ReadReport read_parameters(Stream& stream, TensorSource& source, const FlatParameters& flat,
                           const std::vector<Wanted>& also, int threads,
                           const std::function<void()>& has_read) {
  std::vector<Wanted> wide = wanted_parameters(flat, DType::f32);
  wide.insert(wide.end(), also.begin(), also.end());
  ReadReport report = read_into(stream, source, wide, threads, has_read);
  if (const auto narrow = wanted_parameters(flat, DType::bf16); !narrow.empty()) {
    const ReadReport more = read_into(stream, source, narrow, threads, has_read, DType::bf16);
    report.bytes_used += more.bytes_used;
    report.bytes_read += more.bytes_read;
    report.ms += more.ms;
  }
  return report;
}

ReadReport read_into(Stream& stream, TensorSource& source, const std::vector<Wanted>& wanted,
                     int threads, const std::function<void()>& has_read, DType kept) {
  return stream.device().kind() == DeviceKind::cpu && kept == DType::f32
             ? source.read(wanted, threads, has_read)
             : read_in_batches(stream, source, wanted, threads, passing_bytes, has_read, kept);
}

}  // namespace trireme::checkpoint
