#include "runtime/core/text/exception_text.h"

#include <cstdlib>
#include <exception>
#include <memory>
#include <typeinfo>

#include <cxxabi.h>

namespace trireme {
namespace {

std::string name_of_current_type() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "unknown";
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, nullptr), &std::free);
  return name ? name.get() : type->name();
}

}  // namespace

std::string current_exception_text() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of type " + name_of_current_type() + ", which is no std::exception";
  }
}

}  // namespace trireme
