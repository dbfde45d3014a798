# The target docs_api: pages about the public API, by Doxygen, in docs_api/html of the build
# directory. A comment that Doxygen does not understand is an error.
find_program(TRIREME_DOXYGEN doxygen)
if(TRIREME_DOXYGEN)
  configure_file(${PROJECT_SOURCE_DIR}/runtime/cmake/Doxyfile.in
    ${PROJECT_BINARY_DIR}/docs_api/Doxyfile @ONLY)
  add_custom_target(docs_api COMMAND ${TRIREME_DOXYGEN} ${PROJECT_BINARY_DIR}/docs_api/Doxyfile
    COMMENT "Writing docs_api/html/index.html" VERBATIM)
endif()
