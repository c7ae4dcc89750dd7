# make install: headers, both libraries, the command, sinew.pc, and find_package(Sinew).
include(CMakePackageConfigHelpers)

set(sinew_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Sinew)

install(DIRECTORY include/sinew DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(TARGETS sinew_static sinew_shared EXPORT SinewTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET sinew_cli)
  install(TARGETS sinew_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# sinew.pc is written at install time so that `cmake --install --prefix` is honoured.
install(CODE "
  set(version \"${PROJECT_VERSION}\")
  set(libdir \"${CMAKE_INSTALL_LIBDIR}\")
  set(includedir \"${CMAKE_INSTALL_INCLUDEDIR}\")
  get_filename_component(prefix \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  configure_file(\"${CMAKE_CURRENT_SOURCE_DIR}/cmake/sinew.pc.in\"
    \"${CMAKE_CURRENT_BINARY_DIR}/sinew.pc\" @ONLY)")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sinew.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(EXPORT SinewTargets NAMESPACE Sinew:: DESTINATION ${sinew_package_dir})
configure_package_config_file(cmake/SinewConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/SinewConfig.cmake INSTALL_DESTINATION ${sinew_package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/SinewConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/SinewConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/SinewConfigVersion.cmake
  DESTINATION ${sinew_package_dir})
