// Errors of HDF5 as text, and the owner of an identifier.
#include "runtime/store/hdf5/handle.h"

#include <utility>

#include "trireme/core/error.h"

namespace trireme::hdf5 {

namespace {

// One level of HDF5's error stack; called from the outermost inwards, so that the cause comes last.
herr_t append_reason(unsigned, const H5E_error2_t* error, void* text) {
  auto& reasons = *static_cast<std::string*>(text);
  if (!error->desc || !*error->desc) return 0;
  if (!reasons.empty()) reasons += ": ";
  reasons += error->desc;
  return 0;
}

}  // namespace

void fail(std::string_view call, std::string_view subject) {
  std::string reasons;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, append_reason, &reasons);
  throw Error(str("HDF5 ", call, " of ", subject,
                  " failed: ", reasons.empty() ? "it gives no reason" : reasons));
}

Handle::Handle(Handle&& other) noexcept
    : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(close_, other.close_);
  return *this;
}

// A failure here leaves the identifier open, and then closing its file fails, which is checked
// (H5F_CLOSE_SEMI).
Handle::~Handle() {
  if (id_ >= 0) close_(id_);
}

void Handle::close(std::string_view call, std::string_view subject) {
  check(close_(std::exchange(id_, H5I_INVALID_HID)), call, subject);
}

QuietErrors::QuietErrors() {
  check(H5Eget_auto2(H5E_DEFAULT, &print_, &argument_), "H5Eget_auto2", "this thread");
  check(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "H5Eset_auto2", "this thread");
}

QuietErrors::~QuietErrors() { H5Eset_auto2(H5E_DEFAULT, print_, argument_); }

}  // namespace trireme::hdf5
