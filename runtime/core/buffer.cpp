#include "trireme/core/buffer.h"

#include <sys/mman.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme {

Buffer allocate_host(Index bytes) {
  require(bytes >= 0, "cannot allocate ", bytes, " bytes");
  if (bytes == 0) return {};
  void* data = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require_call(data != MAP_FAILED, "cannot allocate ", bytes, " bytes of host memory");
  ::madvise(data, static_cast<std::size_t>(bytes),
            MADV_HUGEPAGE);  // a hint: failure changes nothing
  return Buffer(data, bytes, std::shared_ptr<void>(data, [bytes](void* p) {
                  ::munmap(p, static_cast<std::size_t>(bytes));
                }));
}

}  // namespace trireme
