# The installation: the shared libraries, their headers, the programs, and what
# find_package(trireme) reads. The libraries must have been built; of the CUDA module and the
# programs, what was built is installed. A consumer needs nothing but trireme: public headers
# include only the standard library, everything else is private.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/trireme)

install(TARGETS trireme trireme_base EXPORT trireme-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# The CUDA module lies beside the libraries, which look for it there; it finds CUDA's own libraries
# where it was linked with them.
if(TARGET trireme_cuda)
  set_target_properties(trireme_cuda PROPERTIES INSTALL_RPATH "$ORIGIN"
    INSTALL_RPATH_USE_LINK_PATH TRUE)
  install(TARGETS trireme_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/trireme DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
foreach(dir launch examples)
  get_property(targets DIRECTORY ${PROJECT_SOURCE_DIR}/${dir} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)
      install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
    endif()
  endforeach()
endforeach()

install(EXPORT trireme-targets NAMESPACE trireme:: DESTINATION ${package_dir})
file(WRITE ${PROJECT_BINARY_DIR}/trireme-config.cmake
  "include(\${CMAKE_CURRENT_LIST_DIR}/trireme-targets.cmake)\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/trireme-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/trireme-config.cmake
  ${PROJECT_BINARY_DIR}/trireme-config-version.cmake
  DESTINATION ${package_dir})
