# Which of the three runs of ./dev test a test belongs to, campaigns, and the one limit of time.
#
#   every change   `./dev test`, and ctest without -C: what add_test() and the functions here do by themselves
#   full           `./dev test --full`, ctest -C full: with ${in_full} as the last argument
#   soak           `./dev test --soak`, ctest -C soak: with ${in_soak} as the last argument
#
# A later run includes the earlier ones, with the whole of each campaign in place of its share.
set(in_full CONFIGURATIONS full soak)
set(in_soak CONFIGURATIONS soak)

# Seconds after which a test hangs. No load of a machine can reach it, so no test has a limit of its own
# (tn_finish_tests): a limit that depends on how fast the machine is fails on other people's machines.
set(TENON_HANG_LIMIT 14400 CACHE STRING "Seconds after which a test is ended because it hangs")
set(TENON_SEED 1 CACHE STRING "First seed of whole campaigns (./dev test --soak)")

# tn_campaign(NAME CASES N [SHARE PERCENT] COMMAND ...): a search over N cases. In the full run the test
# NAME does PERCENT (1) of them with seed 1; in the soak run NAME-all does all of them with seed TENON_SEED. In the
# command @CASES@ is the number of cases, @SEED@ the seed, and @ONE_OF@ 100 / PERCENT, or 1 for all. Properties of both
# tests are set by the caller.
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

# tn_finish_tests(): gives every test of this folder the one limit, and refuses others. Each CMakeLists.txt that adds
# tests ends with it: cmake_language(DEFER CALL tn_finish_tests).
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
