#include "runtime/core/text/exception_text.h"

#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <system_error>
#include <typeinfo>

#include <cxxabi.h>
#include <sys/resource.h>

#include "trireme/core/error.h"

#include "runtime/core/show_bytes.h"

namespace trireme {
namespace {

std::string name_of_current_type() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "unknown";
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, nullptr), &std::free);
  return name ? name.get() : type->name();
}

/// Memory that this process had at most, such as "1.20 GiB".
std::string most_in_use() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return show_bytes(Index{used.ru_maxrss} * 1024);
}

}  // namespace

std::string current_exception_text() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "no memory is left, after " + most_in_use() +
           ": is it limited (ulimit -v, a container, a scheduler)?";
  } catch (const std::system_error& error) {
    const bool threads = error.code() == std::errc::resource_unavailable_try_again;
    return str(error.what(), threads ? ": no other thread can be started; is their number limited "
                                       "(ulimit -u, a container)?"
                                     : "");
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of type " + name_of_current_type() + ", which is no std::exception";
  }
}

}  // namespace trireme
