# What `cmake --install` puts where: libraries, headers, the program, documentation, pkg-config files and the CMake package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tenon)
set(installed_targets tenon_runtime_shared tenon_runtime_static)
set_target_properties(tenon_runtime_shared PROPERTIES EXPORT_NAME runtime)
set_target_properties(tenon_runtime_static PROPERTIES EXPORT_NAME runtime_static)
if(TENON_COMPILER)
  list(APPEND installed_targets tenon_shared)
  set_target_properties(tenon_shared PROPERTIES EXPORT_NAME compiler)
  # Apart, because LLVM, protobuf-c and zlib must be there for whoever links it.
  set_target_properties(tenon_static PROPERTIES EXPORT_NAME compiler_static)
  install(TARGETS tenon_static EXPORT TenonStaticTargets)
  install(EXPORT TenonStaticTargets NAMESPACE Tenon:: DESTINATION ${package_dir})
endif()
if(TENON_TUNE)
  list(APPEND installed_targets tenon_tune_shared)
  set_target_properties(tenon_tune_shared PROPERTIES EXPORT_NAME tune)
endif()
install(TARGETS ${installed_targets} EXPORT TenonTargets)
foreach(program tenon tenon-tune)
  if(TARGET ${program})
    install(TARGETS ${program})
  endif()
endforeach()
# Where runtime/plugin looks for them, seen from libraries and from programs.
foreach(plugin opencl cuda)
  if(TARGET tenon_plugin_${plugin})
    install(TARGETS tenon_plugin_${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tenon)
  endif()
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tenon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The C reference, once `./dev docs` has made it.
install(DIRECTORY ${PROJECT_BINARY_DIR}/reference/html/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/reference OPTIONAL)

set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH TENON_PC_TO_PREFIX /prefix/${pkgconfig_dir} /prefix)
string(REGEX REPLACE "/$" "" TENON_PC_TO_PREFIX ${TENON_PC_TO_PREFIX})
set(pc_files tenon-runtime)
if(TENON_COMPILER)
  list(APPEND pc_files tenon)
endif()
foreach(name ${pc_files})
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${name}.pc.in ${PROJECT_BINARY_DIR}/cmake/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/cmake/${name}.pc DESTINATION ${pkgconfig_dir})
endforeach()

install(EXPORT TenonTargets NAMESPACE Tenon:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/TenonConfig.cmake.in ${PROJECT_BINARY_DIR}/cmake/TenonConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/TenonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/TenonConfig.cmake ${PROJECT_BINARY_DIR}/cmake/TenonConfigVersion.cmake
        DESTINATION ${package_dir})
