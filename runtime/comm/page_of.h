// page_of: the status page of a rank, for modules that have its mesh.
//
// Not installed; modules above may include it.
#pragma once

#include "trireme/comm/mesh.h"

#include "runtime/observe/status_page.h"

namespace trireme::comm {

/// A mesh that knows the status page of its rank.
class HasStatusPage {
 public:
  virtual ~HasStatusPage() = default;
  virtual observe::StatusPage& page() = 0;
};

/// The status page of this rank, or `none` where the mesh knows of none.
inline observe::StatusPage& page_of(Mesh& mesh, observe::StatusPage& none) {
  auto* const has_page = dynamic_cast<HasStatusPage*>(&mesh);
  return has_page != nullptr ? has_page->page() : none;
}

}  // namespace trireme::comm
