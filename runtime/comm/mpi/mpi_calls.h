// MPI for the few files of this module that use it: checked calls, and an owner for communicators.
#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1  // the C calls only; the old C++ ones would need another library
#endif

#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include "trireme/core/error.h"

namespace trireme::comm {

/// Throws: Error with MPI's own text when `code` is not success.
inline void check(int code, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(str(call, ": ", text), where);
}

/// Owns an MPI communicator; errors of calls on it are returned.
class MpiComm {
 public:
  MpiComm() = default;
  explicit MpiComm(MPI_Comm comm) : comm_(comm) {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  MpiComm(MpiComm&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  MpiComm& operator=(MpiComm&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~MpiComm() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  MPI_Comm get() const { return comm_; }

  int rank() const {
    int rank = 0;
    check(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
    return rank;
  }
  int size() const {
    int size = 0;
    check(MPI_Comm_size(comm_, &size), "MPI_Comm_size");
    return size;
  }
  std::vector<int> gather(int value) const {
    std::vector<int> values(static_cast<std::size_t>(size()));
    check(MPI_Allgather(&value, 1, MPI_INT, values.data(), 1, MPI_INT, comm_), "MPI_Allgather");
    return values;
  }
  /// The lowest rank whose value is not 0; -1 when there is none.
  int first_that(bool value) const {
    const std::vector<int> values = gather(value ? 1 : 0);
    for (std::size_t r = 0; r < values.size(); ++r)
      if (values[r]) return static_cast<int>(r);
    return -1;
  }
  /// The text of rank `root`, on all.
  std::string broadcast(const std::string& text, int root) const {
    int length = static_cast<int>(text.size());
    check(MPI_Bcast(&length, 1, MPI_INT, root, comm_), "MPI_Bcast");
    std::string result = text;
    result.resize(static_cast<std::size_t>(length));
    check(MPI_Bcast(result.data(), length, MPI_CHAR, root, comm_), "MPI_Bcast");
    return result;
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace trireme::comm
