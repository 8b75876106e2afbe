# Assigns tests to the three runs of ./dev test, and defines campaigns and the time limit.
#
#   every change   `./dev test`, and ctest without -C: what add_test() and the functions here do by themselves
#   full           `./dev test --full`, ctest -C full: with ${in_full} as the last argument
#   soak           `./dev test --soak`, ctest -C soak: with ${in_soak} as the last argument
#
# A later run includes the earlier ones, with the whole of each campaign in place of its share.
set(in_full CONFIGURATIONS full soak)
set(in_soak CONFIGURATIONS soak)

# Seconds after which ctest kills a hung test, far beyond the effect of any load. Tests have no limits of their own
# (tn_finish_tests), because a limit near the expected time fails on slower machines.
set(TENON_HANG_LIMIT 14400 CACHE STRING "Seconds after which a test is ended because it hangs")
set(TENON_SEED 1 CACHE STRING "First seed of whole campaigns (./dev test --soak)")

# tn_campaign(NAME CASES N [SHARE PERCENT] COMMAND ...): a search over N cases. In the full run the test NAME runs
# PERCENT (default 1) of them with seed 1. In the soak run NAME-all runs all of them with seed TENON_SEED. In the
# command @CASES@ is the number of cases, @SEED@ the seed, and @ONE_OF@ 100 / PERCENT, or 1 for all. The caller sets
# properties of both tests.
function(tn_campaign name)
  cmake_parse_arguments(PARSE_ARGV 1 campaign "" "CASES;SHARE" "COMMAND")
  if(NOT campaign_CASES OR NOT campaign_COMMAND OR campaign_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tn_campaign(${name} ...): CASES and COMMAND are needed, and nothing else is known")
  endif()
  if(NOT campaign_SHARE)
    set(campaign_SHARE 1)
  endif()
  foreach(test ${name} ${name}-all)
    set(command ${campaign_COMMAND})
    if(test STREQUAL name)
      math(EXPR cases "(${campaign_CASES} * ${campaign_SHARE} + 99) / 100")
      math(EXPR one_of "100 / ${campaign_SHARE}")
      set(seed 1)
      set(run CONFIGURATIONS full)
    else()
      set(cases ${campaign_CASES})
      set(one_of 1)
      set(seed ${TENON_SEED})
      set(run ${in_soak})
    endif()
    list(TRANSFORM command REPLACE "@CASES@" "${cases}")
    list(TRANSFORM command REPLACE "@ONE_OF@" "${one_of}")
    list(TRANSFORM command REPLACE "@SEED@" "${seed}")
    add_test(NAME ${TENON_TEST_PREFIX}${test} COMMAND ${command} ${run})
    set_tests_properties(${TENON_TEST_PREFIX}${test} PROPERTIES LABELS slow)
  endforeach()
endfunction()

# tn_finish_tests(): sets the time limit of every test in this folder, and rejects other limits. Each CMakeLists.txt
# that adds tests ends with it: cmake_language(DEFER CALL tn_finish_tests).
function(tn_finish_tests)
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(test ${tests})
    get_test_property(${test} TIMEOUT limit)
    if(limit)
      message(FATAL_ERROR "the test ${test} has a TIMEOUT of its own: time limits depend on the machine; TENON_HANG_LIMIT is for all")
    endif()
  endforeach()
  if(tests)
    set_tests_properties(${tests} PROPERTIES TIMEOUT ${TENON_HANG_LIMIT})
  endif()
endfunction()
cmake_language(DEFER CALL tn_finish_tests)
