// Creating groups and datasets in a scratch file.
#include "runtime/store/hdf5/layout.h"

#include <sys/resource.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"
#include "runtime/store/hdf5/dataset.h"

namespace trireme::hdf5 {

namespace {

// Datasets of a page or more begin on a page, which is best for O_DIRECT and readers.
constexpr hsize_t page_bytes = 4096;

Handle create_file(const std::string& path) {
  const Handle access = make_file_access(), properties = make_properties(H5P_FILE_CREATE);
  check(H5Pset_alignment(access.id(), page_bytes, page_bytes), "H5Pset_alignment", path);
  return Handle(check(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, properties.id(), access.id()),
                      "H5Fcreate", path),
                H5Fclose);
}

}  // namespace

void require_file_size(Index bytes) {
  rlimit limit = {};
  require_call(::getrlimit(RLIMIT_FSIZE, &limit) == 0, "getrlimit");
  require(limit.rlim_cur == RLIM_INFINITY || static_cast<rlim_t>(bytes) <= limit.rlim_cur,
          "a file of up to ", bytes, " bytes is needed, and this process may write ",
          limit.rlim_cur, " (ulimit -f)");
}

Handle make_properties(hid_t kind) {
  const char* subject = "creation properties";
  Handle properties(check(H5Pcreate(kind), "H5Pcreate", subject), H5Pclose);
  check(H5Pset_obj_track_times(properties.id(), false), "H5Pset_obj_track_times", subject);
  return properties;
}

LayoutFile::LayoutFile(Index metadata_bytes)
    : scratch_(metadata_bytes),
      group_properties_(make_properties(H5P_GROUP_CREATE)),
      file_(create_file(scratch_.path())) {
  scratch_.unlink();
}

// HDF5 would create them automatically, but with the time of creation in them.
void LayoutFile::create_groups(const std::string& path) {
  for (auto end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    const std::string group = path.substr(0, end);
    if (!groups_.insert(group).second) continue;
    Handle(check(H5Gcreate2(file_.id(), group.c_str(), H5P_DEFAULT, group_properties_.id(),
                            H5P_DEFAULT),
                 "H5Gcreate2", group),
           H5Gclose);
  }
}

Handle LayoutFile::create_dataset(const std::string& path, DType dtype, const Shape& shape,
                                  const Handle& properties) {
  create_groups(path);
  const Handle type = make_type(dtype), space = make_space(shape);
  return Handle(check(H5Dcreate2(file_.id(), path.c_str(), type.id(), space.id(), H5P_DEFAULT,
                                 properties.id(), H5P_DEFAULT),
                      "H5Dcreate2", path),
                H5Dclose);
}

FileLayout LayoutFile::finish() {
  file_.close("H5Fclose", "the layout of a file");
  FileLayout layout;
  layout.bytes = scratch_.size();
  layout.structure = scratch_.contents();
  return layout;
}

}  // namespace trireme::hdf5
