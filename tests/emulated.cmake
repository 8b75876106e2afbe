# Runs the unit tests, the golden tests of the command and ONNX's suite on other CPUs, in the soak run: qemu-user
# emulates an x86-64 CPU with AVX2 and one without AVX. This detects tests that assume the machine's own CPU. Tests of
# the tuner's workers are excluded, because qemu-user needs more memory than their limit.
cmake_host_system_information(RESULT machine QUERY OS_PLATFORM)
find_program(TENON_X86_64_EMULATOR qemu-x86_64)
if(NOT machine STREQUAL x86_64 OR NOT TENON_X86_64_EMULATOR)
  if(machine STREQUAL x86_64)
    tn_missing("qemu-x86_64 is not there (Debian: qemu-user)")
  endif()
  return()
endif()
# Without features that qemu-user lacks and would warn about.
set(emulated_haswell Haswell,-pcid,-x2apic,-tsc-deadline,-hle,-invpcid,-rtm)
set(emulated_nehalem Nehalem)
foreach(cpu haswell nehalem)
  set(emulator ${TENON_X86_64_EMULATOR} -cpu ${emulated_${cpu}})
  foreach(folder ${unit_folders})
    foreach(name ${unit_names_${folder}})
      if(name STREQUAL tune_workers)
        continue()
      endif()
      add_test(NAME emulated.${cpu}.unit.${name} COMMAND ${emulator} $<TARGET_FILE:unit_${folder}> ${name} ${in_soak})
      get_test_property(unit.${name} ENVIRONMENT environment)
      set_tests_properties(emulated.${cpu}.unit.${name} PROPERTIES LABELS "unit;slow" ENVIRONMENT "${environment}")
    endforeach()
  endforeach()
  set(programs ${CMAKE_CURRENT_BINARY_DIR}/emulated/${cpu})
  foreach(program tenon tenon-opt)
    if(TARGET ${program})
      list(JOIN emulator " " words)
      file(GENERATE OUTPUT ${programs}/${program} CONTENT "#!/bin/sh\nexec ${words} $<TARGET_FILE:${program}> \"$@\"\n"
           FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
    endif()
  endforeach()
  find_program(FILECHECK NAMES FileCheck-19 FileCheck HINTS ${LLVM_TOOLS_BINARY_DIR})
  add_test(NAME emulated.${cpu}.golden
           COMMAND ${TENON_PYTHON} -c "from lit.main import main; main()" -sv -j 2 --param tenon=${programs}/tenon
                   --param tenon_opt=${programs}/tenon-opt --param filecheck=${FILECHECK} --param python=${TENON_PYTHON}
                   --param plugins= --param output=${programs}/golden ${CMAKE_CURRENT_SOURCE_DIR}/golden ${in_soak})
  add_test(NAME emulated.${cpu}.onnx.suite COMMAND ${emulator} ${TENON_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/onnx/backend_suite.py
                                                   --kind node --jobs 2 ${in_soak})
  set_tests_properties(emulated.${cpu}.golden emulated.${cpu}.onnx.suite PROPERTIES LABELS "golden;python;slow"
                       ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/python;TENON_CACHE_DIR=${programs}/cache")
endforeach()
