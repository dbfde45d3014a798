#include "runtime/observe/remote/page_copy.h"

#include <cstring>

namespace trireme::observe {
namespace {

template <class T>
void copy_record(const SequenceLocked<T>& from, SequenceLocked<T>& to) {
  T words;
  if (from.read(words)) {
    to.reset();
    to.write(words);
  } else {
    to.write_unfinished(words);
  }
}

}  // namespace

void copy_page(const PageLayout& from, PageLayout& to) {
  std::memcpy(static_cast<void*>(&to), static_cast<const void*>(&from), sizeof(PageLayout));
  copy_record(from.place, to.place);
  copy_record(from.wait, to.wait);
  copy_record(from.error, to.error);
  copy_record(from.coordinates, to.coordinates);
  copy_record(from.stack, to.stack);
  for (std::size_t i = 0; i < from.step_ring.size(); ++i)
    copy_record(from.step_ring[i], to.step_ring[i]);
  for (std::size_t i = 0; i < from.operation_ring.size(); ++i)
    copy_record(from.operation_ring[i], to.operation_ring[i]);
}

}  // namespace trireme::observe
