#include "runtime/observe/injection.h"

#include "trireme/core/error.h"

#include "runtime/observe/page_layout.h"
#include "runtime/observe/page_mapping.h"

namespace trireme::observe {

std::uint64_t word_of(const Injection& injection) {
  if (injection.fault == InjectedFault::none) return 0;
  return std::uint64_t{injection.draw} << 32 | static_cast<std::uint32_t>(injection.fault);
}

Injection injection_of(std::uint64_t word) {
  const auto fault = static_cast<std::uint32_t>(word);
  if (fault >= injected_fault_count) return {};
  return {static_cast<InjectedFault>(fault), static_cast<std::uint32_t>(word >> 32)};
}

void inject(const std::string& page, const Injection& injection) {
  const PageMapping mapping = PageMapping::open_to_write(page, page_bytes);
  auto* const layout = static_cast<PageLayout*>(mapping.data());
  require(layout->header.magic == page_magic && layout->header.version == page_version, page,
          ": no status page of this version of trireme");
  layout->injection.store(word_of(injection), std::memory_order_relaxed);
}

}  // namespace trireme::observe
