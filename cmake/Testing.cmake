enable_testing()

# muster_unit_test(NAME LIBRARY...): builds NAME.c as a cmocka program and adds it as test unit.NAME.
function(muster_unit_test name)
    add_executable(${name} ${name}.c)
    target_link_libraries(${name} PRIVATE ${ARGN} PkgConfig::CMOCKA)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME unit.${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/in_own_folder $<TARGET_FILE:${name}>)
    set_tests_properties(unit.${name} PROPERTIES TIMEOUT 120)
endfunction()
