#include "runtime/checkpoint/read.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme::checkpoint {
namespace {

Index bytes_of(const Wanted& w) { return w.box.count() * size_bytes(w.dtype); }

/// Adds `w` in boxes of at most `most` bytes, each of which lies in one run in the memory of the
/// whole. That is a cut of the first dim that can be cut, and where one row of it is too large of
/// the next one.
void add_parts(const Wanted& w, Index most, std::vector<Wanted>& parts) {
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
    part.data = static_cast<std::byte*>(w.data) + begin * row_bytes;
    add_parts(part, most, parts);
  }
}

}  // namespace

int reading_threads(const Options& options) {
  return std::max(2, static_cast<int>(options.threads_per_rank));
}

Index reading_bytes(DeviceKind kind, Index wanted_bytes, int threads) {
  return reader_bytes(threads) +
         (kind == DeviceKind::cpu ? 0 : std::min(wanted_bytes, passing_bytes));
}

ReadReport read_in_batches(Stream& stream, TensorSource& source, const std::vector<Wanted>& wanted,
                           int threads, Index most, const std::function<void()>& has_read) {
  std::vector<Wanted> parts;
  Index all = 0;
  for (const Wanted& w : wanted) {
    add_parts(w, most, parts);
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
      if (!source.fills(batch[i])) stream.copy(batch[i].data, places[i], bytes_of(batch[i]));
    stream.synchronize();
    const ReadReport read = source.read(batch, threads, has_read);
    report.bytes_used += read.bytes_used;
    report.bytes_read += read.bytes_read;
    report.ms += read.ms;
    for (std::size_t i = 0; i < batch.size(); ++i)
      stream.copy(places[i], batch[i].data, bytes_of(batch[i]));
    stream.synchronize();  // the next batch takes the same memory
  }
  return report;
}

ReadReport read_into(Stream& stream, TensorSource& source, const std::vector<Wanted>& wanted,
                     int threads, const std::function<void()>& has_read) {
  return stream.device().kind() == DeviceKind::cpu
             ? source.read(wanted, threads, has_read)
             : read_in_batches(stream, source, wanted, threads, passing_bytes, has_read);
}

}  // namespace trireme::checkpoint
