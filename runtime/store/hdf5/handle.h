// HDF5's C library, wrapped once: every identifier has an owner, every return code is checked, and
// HDF5's own error stack becomes the message of an Error. Include it in runtime/store only.
#pragma once

#include <string>
#include <string_view>

#include <hdf5.h>

namespace trireme::hdf5 {

/// Throws: Error made of the call, what it was for, and HDF5's reasons.
[[noreturn]] void fail(std::string_view call, std::string_view subject);

/// `result` of the call, unless it is negative. Throws: as fail().
template <class Result>
Result check(Result result, std::string_view call, std::string_view subject) {
  if (result < 0) fail(call, subject);
  return result;
}

/// Owns one identifier.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  /// `id`: checked already.
  Handle(hid_t id, Close closing) : id_(id), close_(closing) {}
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  ~Handle();

  hid_t id() const { return id_; }
  /// Closes now, and checks that it worked. Throws: Error.
  void close(std::string_view call, std::string_view subject);

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

/// Stops HDF5 from printing the errors of this thread, for the lifetime of the object.
class QuietErrors {
 public:
  QuietErrors();
  ~QuietErrors();
  QuietErrors(const QuietErrors&) = delete;
  QuietErrors& operator=(const QuietErrors&) = delete;

 private:
  H5E_auto2_t print_ = nullptr;
  void* argument_ = nullptr;
};

}  // namespace trireme::hdf5
