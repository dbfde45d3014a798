// Copies of a status page, made while its rank writes into it.
//
// Not installed; modules above may include it.
#pragma once

#include <cstddef>

#include "runtime/observe/page_layout.h"

namespace trireme::observe {

/// The words at the begin of a page that show whether its rank moves.
inline constexpr std::size_t page_head_bytes = offsetof(PageLayout, place);

/// Each record as it was at one moment; one that its writer has not finished is unfinished in the
/// copy as well. `to` is a page of this process that no other thread reads.
void copy_page(const PageLayout& from, PageLayout& to);

}  // namespace trireme::observe
