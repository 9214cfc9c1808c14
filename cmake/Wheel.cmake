# Builds the wheel of the Python package (sdk/python) from a copy in the build folder, because setuptools writes beside
# the sources. Needs Debian's python3-setuptools and python3-wheel, and no network.
set(wheel_build ${CMAKE_BINARY_DIR}/sdk)
foreach(python python3 /usr/bin/python3)
    execute_process(COMMAND ${python} -c "import setuptools, wheel; assert int(setuptools.__version__.split('.')[0]) >= 61"
                    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
        set(WHEEL_PYTHON ${python})
        break()
    endif()
endforeach()
if(NOT WHEEL_PYTHON)
    set(wheel_missing "No wheel of the Python package: python3-setuptools (61 or newer) or python3-wheel is missing")
    message(STATUS ${wheel_missing})
    add_custom_target(wheel COMMAND ${CMAKE_COMMAND} -E echo ${wheel_missing})
    return()
endif()
file(GLOB_RECURSE wheel_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/sdk/python/*.py)
add_custom_command(
    OUTPUT ${wheel_build}/wheel.stamp
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${wheel_build}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${wheel_build}
    COMMAND ${CMAKE_COMMAND} -E copy_directory ${CMAKE_SOURCE_DIR}/sdk/python ${wheel_build}/copy
    COMMAND ${CMAKE_COMMAND} -E chdir ${wheel_build}/copy ${WHEEL_PYTHON} -c
            "from setuptools import build_meta; build_meta.build_wheel('..')" > ${wheel_build}/wheel.log
    COMMAND ${CMAKE_COMMAND} -E make_directory ${wheel_build}/unpacked
    COMMAND ${CMAKE_COMMAND} -E chdir ${wheel_build}/unpacked ${WHEEL_PYTHON} -c # for cmake/Packages.cmake
            "import glob, zipfile; zipfile.ZipFile(*glob.glob('../*.whl')).extractall()"
    COMMAND ${CMAKE_COMMAND} -E touch ${wheel_build}/wheel.stamp
    DEPENDS ${wheel_sources} ${CMAKE_SOURCE_DIR}/sdk/python/pyproject.toml ${CMAKE_SOURCE_DIR}/sdk/python/README.md
    COMMENT "Building the wheel of the Python package"
    VERBATIM)
add_custom_target(wheel ALL DEPENDS ${wheel_build}/wheel.stamp)
